#include "src/agent/nvtx_payload.h"

#include <cstdlib>
#include <cstring>

#include "src/agent/state.h"

namespace teller::agent {

namespace {

constexpr uint32_t kMaxSchemas = 512;
constexpr uint32_t kMaxEnums = 64;
constexpr uint32_t kMaxEnumValues = 16;
constexpr uint64_t kMaxOffset =
    4096;  // payloads are small structures; a wild offset is not followed

enum Fact : uint32_t { kCommunicator, kBytes, kPeer, kReduction, kFactCount };

struct Field {
  bool there;
  uint8_t size;
  bool is_signed;
  uint16_t offset;
  uint64_t type;  ///< of the entry; names an enumeration where it is one
};

/// Append-only tables in memory that needs no constructor; `id` is stored last.
struct Schema {
  std::atomic<uint64_t> id;
  uint32_t domain;
  Field fields[kFactCount];
};

struct EnumValue {
  uint64_t value;
  const char* text;
};

struct Enum {
  std::atomic<uint64_t> id;
  uint32_t domain;
  uint32_t count;
  uint8_t size;
  EnumValue values[kMaxEnumValues];
};

Schema schemas[kMaxSchemas];
Enum enums[kMaxEnums];
SpinLock registration_lock;
uint64_t next_id = NVTX_PAYLOAD_SCHEMA_ID_DYNAMIC_START;

/// Bytes of an entry of integral type; 0: not one that we read.
uint8_t IntegerSize(uint64_t type) noexcept {
  switch (type) {
    case NVTX_PAYLOAD_ENTRY_TYPE_INT:
    case NVTX_PAYLOAD_ENTRY_TYPE_UINT:
    case NVTX_PAYLOAD_ENTRY_TYPE_INT32:
    case NVTX_PAYLOAD_ENTRY_TYPE_UINT32:
      return 4;
    case NVTX_PAYLOAD_ENTRY_TYPE_LONG:
    case NVTX_PAYLOAD_ENTRY_TYPE_ULONG:
    case NVTX_PAYLOAD_ENTRY_TYPE_LONGLONG:
    case NVTX_PAYLOAD_ENTRY_TYPE_ULONGLONG:
    case NVTX_PAYLOAD_ENTRY_TYPE_INT64:
    case NVTX_PAYLOAD_ENTRY_TYPE_UINT64:
    case NVTX_PAYLOAD_ENTRY_TYPE_SIZE:
      return 8;
    default:
      return 0;
  }
}

bool IsSigned(uint64_t type) noexcept {
  return type == NVTX_PAYLOAD_ENTRY_TYPE_INT || type == NVTX_PAYLOAD_ENTRY_TYPE_INT32 ||
         type == NVTX_PAYLOAD_ENTRY_TYPE_LONG || type == NVTX_PAYLOAD_ENTRY_TYPE_LONGLONG ||
         type == NVTX_PAYLOAD_ENTRY_TYPE_INT64;
}

const Enum* FindEnum(uint32_t domain, uint64_t id) noexcept {
  for (const Enum& candidate : enums) {
    const uint64_t known = candidate.id.load(std::memory_order_acquire);
    if (known == 0) return nullptr;
    if (known == id && candidate.domain == domain) return &candidate;
  }
  return nullptr;
}

/// Which fact an entry is, by the names in NCCL's schemas; kFactCount: none.
Fact FactOf(const char* name) noexcept {
  if (name == nullptr) return kFactCount;
  if (strstr(name, "ommunicator ID") != nullptr) return kCommunicator;
  if (strstr(name, "essage size") != nullptr) return kBytes;
  if (strstr(name, "eer rank") != nullptr) return kPeer;
  return strstr(name, "eduction operation") != nullptr ? kReduction : kFactCount;
}

/// Bytes of an entry; 0: not known. An enumeration may be registered after the schemas that use it.
uint8_t EntrySize(uint32_t domain, uint64_t type) noexcept {
  if (const uint8_t size = IntegerSize(type)) return size;
  if (const Enum* enumeration = FindEnum(domain, type)) return enumeration->size;
  return type >= NVTX_PAYLOAD_SCHEMA_ID_STATIC_START ? sizeof(int) : 0;
}

/// Where entries give no offset they follow each other by natural alignment, as long as the sizes
/// of all before are known.
void LayOut(Schema& schema, const nvtxPayloadSchemaAttr_t& attributes) noexcept {
  uint64_t next = 0;
  for (std::size_t i = 0; i < attributes.numEntries; ++i) {
    const nvtxPayloadSchemaEntry_t& entry = attributes.entries[i];
    const uint8_t size = EntrySize(schema.domain, entry.type);
    if (size == 0 || (entry.flags & ~uint64_t{NVTX_PAYLOAD_ENTRY_FLAG_HIDE}) != 0) return;
    const uint64_t offset = entry.offset != 0 ? entry.offset : (next + size - 1) / size * size;
    if (offset > kMaxOffset) return;
    next = offset + size;
    if (const Fact fact = FactOf(entry.name); fact != kFactCount) {
      schema.fields[fact] = {true, size, IsSigned(entry.type), static_cast<uint16_t>(offset),
                             entry.type};
    }
  }
}

bool ReadField(const Field& field, const nvtxPayloadData_t& payload, uint64_t& value) noexcept {
  if (!field.there || payload.payload == nullptr) return false;
  if (payload.size != SIZE_MAX && field.offset + std::size_t{field.size} > payload.size)
    return false;
  const char* at = static_cast<const char*>(payload.payload) + field.offset;
  if (field.size == 8) {
    memcpy(&value, at, sizeof value);
    return true;
  }
  uint32_t narrow;
  memcpy(&narrow, at, sizeof narrow);
  value = field.is_signed ? static_cast<uint64_t>(int64_t{static_cast<int32_t>(narrow)}) : narrow;
  return true;
}

const Schema* FindSchema(uint32_t domain, uint64_t id) noexcept {
  for (const Schema& schema : schemas) {
    const uint64_t known = schema.id.load(std::memory_order_acquire);
    if (known == 0) return nullptr;
    if (known == id && schema.domain == domain) return &schema;
  }
  return nullptr;
}

const char* EnumText(uint32_t domain, const Field& field, uint64_t value) noexcept {
  const Enum* enumeration = FindEnum(domain, field.type);
  if (enumeration == nullptr) return nullptr;
  for (uint32_t i = 0; i < enumeration->count; ++i) {
    if (enumeration->values[i].value == value) return enumeration->values[i].text;
  }
  return nullptr;
}

void ReadOne(uint32_t domain, const nvtxPayloadData_t& payload, PayloadFacts& facts) noexcept {
  const Schema* schema = FindSchema(domain, payload.schemaId);
  if (schema == nullptr) return;
  uint64_t value = 0;
  if (ReadField(schema->fields[kCommunicator], payload, value)) {
    facts.has_communicator = true;
    facts.communicator = value;
  }
  if (ReadField(schema->fields[kBytes], payload, value)) facts.bytes = static_cast<int64_t>(value);
  if (ReadField(schema->fields[kPeer], payload, value)) facts.peer = static_cast<int32_t>(value);
  if (ReadField(schema->fields[kReduction], payload, value)) {
    facts.has_reduction = true;
    facts.reduction_number = static_cast<int64_t>(value);
    facts.reduction = EnumText(domain, schema->fields[kReduction], value);
  }
}

template <typename Entry, std::size_t Size>
Entry* FreeEntry(Entry (&table)[Size]) noexcept {
  for (Entry& entry : table) {
    if (entry.id.load(std::memory_order_relaxed) == 0) return &entry;
  }
  return nullptr;
}

}  // namespace

uint64_t RegisterPayloadSchema(uint32_t domain,
                               const nvtxPayloadSchemaAttr_t* attributes) noexcept {
  if (attributes == nullptr || attributes->entries == nullptr) return 0;
  const bool has_id = (attributes->fieldMask & NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_SCHEMA_ID) != 0;
  registration_lock.lock();
  const uint64_t id = has_id ? attributes->schemaId : next_id++;
  Schema* schema = FreeEntry(schemas);
  if (schema != nullptr && FindSchema(domain, id) == nullptr) {
    schema->domain = domain;
    LayOut(*schema, *attributes);
    schema->id.store(id, std::memory_order_release);
  }
  registration_lock.unlock();
  return schema == nullptr ? 0 : id;
}

uint64_t RegisterPayloadEnum(uint32_t domain, const nvtxPayloadEnumAttr_t* attributes) noexcept {
  if (attributes == nullptr || attributes->entries == nullptr) return 0;
  const bool has_id = (attributes->fieldMask & NVTX_PAYLOAD_ENUM_ATTR_FIELD_SCHEMA_ID) != 0;
  registration_lock.lock();
  const uint64_t id = has_id ? attributes->schemaId : next_id++;
  Enum* kept = FreeEntry(enums);
  if (kept != nullptr && FindEnum(domain, id) == nullptr) {
    kept->domain = domain;
    kept->size = attributes->sizeOfEnum == 8 ? 8 : 4;
    for (std::size_t i = 0; i < attributes->numEntries && kept->count < kMaxEnumValues; ++i) {
      const char* name = attributes->entries[i].name;
      if (name == nullptr) continue;
      kept->values[kept->count++] = {attributes->entries[i].value, strdup(name)};
    }
    kept->id.store(id, std::memory_order_release);
  }
  registration_lock.unlock();
  return kept == nullptr ? 0 : id;
}

PayloadFacts ReadPayload(uint32_t domain, const nvtxPayloadData_t* payloads,
                         std::size_t count) noexcept {
  PayloadFacts facts;
  for (std::size_t i = 0; payloads != nullptr && i < count; ++i)
    ReadOne(domain, payloads[i], facts);
  return facts;
}

bool HasPayload(const nvtxEventAttributes_t& attributes) noexcept {
  return attributes.payloadType == NVTX_PAYLOAD_TYPE_EXT;
}

PayloadFacts ReadPayload(uint32_t domain, const nvtxEventAttributes_t& attributes) noexcept {
  const auto* payloads = reinterpret_cast<const nvtxPayloadData_t*>(attributes.payload.ullValue);
  return ReadPayload(domain, payloads, static_cast<std::size_t>(attributes.reserved0));
}

}  // namespace teller::agent
