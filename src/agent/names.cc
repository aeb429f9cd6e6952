#include "src/agent/names.h"

#include "src/agent/segments.h"

namespace teller::agent {

namespace {

/// FNV-1a; names are short and each is hashed once a thread.
uint32_t HashText(const char* text, std::size_t length) noexcept {
  uint64_t hash = 0xcbf29ce484222325ull;
  for (std::size_t i = 0; i < length; ++i) {
    hash = (hash ^ static_cast<unsigned char>(text[i])) * 0x100000001b3ull;
  }
  return static_cast<uint32_t>(hash ^ (hash >> 32));
}

uint32_t LengthOf(uint32_t id) noexcept {
  uint32_t length;
  memcpy(&length, g_state->names + g_state->name_offsets[id], sizeof length);
  return length;
}

const char* TextOf(uint32_t id) noexcept {
  return g_state->names + g_state->name_offsets[id] + sizeof(uint32_t);
}

/// The id, or kMaxNames where it is not there; `slot` is then the place for it.
uint32_t Find(uint32_t hash, const char* text, std::size_t length, uint32_t& slot) noexcept {
  slot = hash % kNameIndexSlots;
  for (;; slot = (slot + 1) % kNameIndexSlots) {
    const uint64_t entry = g_state->name_index[slot].load(std::memory_order_acquire);
    if (entry == 0) return kMaxNames;
    const uint32_t id = static_cast<uint32_t>(entry) - 1;
    if (static_cast<uint32_t>(entry >> 32) == hash && LengthOf(id) == length &&
        memcmp(TextOf(id), text, length) == 0) {
      return id;
    }
  }
}

/// Under the name lock.
uint32_t Add(uint32_t hash, const char* text, std::size_t length, uint32_t slot) noexcept {
  TellerPoolHeader* pool = g_state->pool;
  const uint32_t id = pool->name_count;
  const uint32_t offset = pool->name_bytes;
  const uint32_t bytes = static_cast<uint32_t>((sizeof(uint32_t) + length + 3) & ~std::size_t{3});
  if (id >= kMaxNames || !BackNameTable(offset + bytes)) {
    CountDrop(TELLER_DROP_NAME_TABLE_FULL);
    return kNameTableFull;
  }
  const uint32_t stored_length = static_cast<uint32_t>(length);
  memcpy(g_state->names + offset, &stored_length, sizeof stored_length);
  memcpy(g_state->names + offset + sizeof stored_length, text, length);
  g_state->name_offsets[id] = offset;
  __atomic_store_n(&pool->name_count, id + 1, __ATOMIC_RELAXED);
  __atomic_store_n(&pool->name_bytes, offset + bytes, __ATOMIC_RELEASE);
  g_state->name_index[slot].store((uint64_t{hash} << 32) | (id + 1), std::memory_order_release);
  return id;
}

}  // namespace

uint32_t InternText(const char* text, std::size_t length) noexcept {
  if (length > kMaxNameBytes) length = kMaxNameBytes;
  const uint32_t hash = HashText(text, length);
  uint32_t slot = 0;
  uint32_t id = Find(hash, text, length, slot);
  if (id != kMaxNames) return id;
  Thread* thread = t_thread;
  if (thread != nullptr && thread->busy)
    return kNameTableFull;  // a signal handler inside our slow path
  const ErrnoKeeper errno_keeper;
  if (thread != nullptr) thread->busy = true;
  g_state->name_lock.lock();
  id = Find(hash, text, length, slot);
  if (id == kMaxNames) id = Add(hash, text, length, slot);
  g_state->name_lock.unlock();
  if (thread != nullptr) thread->busy = false;
  return id;
}

uint32_t InternIntoCache(CachedName& cached, const char* text) noexcept {
  const uint32_t id = InternText(text, strlen(text));
  if (id == kNameTableFull) return id;
  cached = {text, g_state->name_offsets[id], id};
  return id;
}

void CopyName(uint32_t id, char* text, std::size_t size) noexcept {
  const std::size_t length = LengthOf(id) < size - 1 ? LengthOf(id) : size - 1;
  memcpy(text, TextOf(id), length);
  text[length] = 0;
}

}  // namespace teller::agent
