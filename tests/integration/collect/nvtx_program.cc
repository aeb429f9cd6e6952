// A target for tests: emits NVTX as its first argument says.
#include <fcntl.h>
#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtPayload.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace {

void Pairs(int count) {
  for (int i = 0; i < count; ++i) {
    nvtxRangePushA(i % 2 == 0 ? "outer" : "single");
    if (i % 2 == 0) {
      nvtxRangePushA("inner");
      nvtxRangePop();
    }
    nvtxRangePop();
  }
}

void Threads(int threads, int pairs) {
  std::vector<std::thread> running;
  for (int t = 0; t < threads; ++t) running.emplace_back(Pairs, pairs);
  for (std::thread& thread : running) thread.join();
}

/// The parent and two children, one of which executes this program anew.
void Fork(const char* self) {
  nvtxRangePushA("before fork");
  if (fork() == 0) {
    Pairs(10);
    _exit(0);
  }
  if (fork() == 0) execl(self, self, "pairs", "20", nullptr);
  while (wait(nullptr) > 0) {
  }
  nvtxRangePop();
}

/// The image replaces itself: same pid, same start time.
void Exec(const char* self) {
  Pairs(6);
  execl(self, self, "pairs", "8", nullptr);
}

/// Says how many pairs are done after each hundred, for ever, so that a test can kill it.
void Forever() {
  for (int done = 0;; done += 100) {
    Pairs(100);
    std::printf("%d\n", done + 100);
    std::fflush(stdout);
    usleep(1000);
  }
}

void Everything() {
  const nvtxDomainHandle_t domain = nvtxDomainCreateA("test domain");
  nvtxEventAttributes_t attributes = {};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  attributes.message.registered = nvtxDomainRegisterStringA(domain, "registered");
  nvtxDomainRangePushEx(domain, &attributes);
  nvtxRangePushW(L"wide \u00e4\u20ac");
  nvtxDomainRangePop(domain);  // crosses the default domain's open range
  nvtxRangePop();
  nvtxMarkA("mark");
  const nvtxRangeId_t range = nvtxRangeStartA("start end");
  std::thread([range] { nvtxRangeEnd(range); }).join();
  nvtxRangeEnd(range);  // a second time: unknown
  nvtxRangePop();       // unbalanced
  attributes.messageType = NVTX_MESSAGE_UNKNOWN;
  nvtxRangePushEx(&attributes);  // no message
  nvtxRangePop();
}

nvtxEventAttributes_t Named(const char* name) {
  nvtxEventAttributes_t attributes = {};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attributes.message.ascii = name;
  return attributes;
}

/// Wide strings in every place that takes one.
void Wide() {
  const nvtxDomainHandle_t domain = nvtxDomainCreateW(L"wide domain");
  nvtxMarkW(L"wide mark");
  nvtxRangeEnd(nvtxRangeStartW(L"wide start"));
  nvtxEventAttributes_t attributes = Named("");
  attributes.messageType = NVTX_MESSAGE_TYPE_UNICODE;
  attributes.message.unicode = L"wide \U0001F600 message";
  nvtxDomainRangePushEx(domain, &attributes);
  nvtxDomainRangePop(domain);
  attributes.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  attributes.message.registered = nvtxDomainRegisterStringW(domain, L"wide registered");
  nvtxDomainMarkEx(domain, &attributes);
}

/// Two domains with a range of the same name each, crossing; categories, colours and plain
/// payloads.
void Domains() {
  const nvtxDomainHandle_t first = nvtxDomainCreateA("first"), second = nvtxDomainCreateA("second");
  nvtxDomainNameCategoryA(first, 4, "category");
  nvtxEventAttributes_t attributes = Named("same");
  attributes.category = 4;
  attributes.colorType = NVTX_COLOR_ARGB;
  attributes.color = 0xff00ff00;
  attributes.payloadType = NVTX_PAYLOAD_TYPE_INT64;
  attributes.payload.llValue = 42;
  nvtxDomainRangePushEx(first, &attributes);
  usleep(2000);
  nvtxDomainRangePushEx(second, &attributes);
  nvtxDomainRangePop(first);  // the outer one, though the other is still open
  usleep(4000);
  nvtxDomainRangePop(second);
  attributes.message.ascii = "started in a domain";
  nvtxDomainRangeEnd(second, nvtxDomainRangeStartEx(second, &attributes));
  attributes.message.ascii = "marked in a domain";
  nvtxDomainMarkEx(second, &attributes);
  nvtxDomainDestroy(first);
}

struct Message {
  uint64_t communicator;
  uint64_t bytes;
  int reduction;
};

/// A payload as NCCL describes its own, with a schema and an enumeration of ids chosen beforehand.
void Payload() {
  constexpr uint64_t kSchema = NVTX_PAYLOAD_SCHEMA_ID_STATIC_START + 7;
  constexpr uint64_t kEnum = NVTX_PAYLOAD_SCHEMA_ID_STATIC_START + 8;
  const nvtxDomainHandle_t domain = nvtxDomainCreateA("payload");
  const nvtxPayloadEnum_t values[] = {{"Sum", 0, 0}, {"Max", 2, 0}};
  nvtxPayloadEnumAttr_t enumeration = {};
  enumeration.fieldMask =
      NVTX_PAYLOAD_ENUM_ATTR_FIELD_ENTRIES | NVTX_PAYLOAD_ENUM_ATTR_FIELD_NUM_ENTRIES |
      NVTX_PAYLOAD_ENUM_ATTR_FIELD_SIZE | NVTX_PAYLOAD_ENUM_ATTR_FIELD_SCHEMA_ID;
  enumeration.entries = values;
  enumeration.numEntries = 2;
  enumeration.sizeOfEnum = sizeof(int);
  enumeration.schemaId = kEnum;
  nvtxPayloadEnumRegister(domain, &enumeration);
  const nvtxPayloadSchemaEntry_t entries[] = {
      {0, NVTX_PAYLOAD_ENTRY_TYPE_UINT64, "NCCL communicator ID"},
      {0, NVTX_PAYLOAD_ENTRY_TYPE_SIZE, "Message size [bytes]"},
      {0, kEnum, "Reduction operation"}};
  nvtxPayloadSchemaAttr_t schema = {};
  schema.fieldMask = NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_TYPE | NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ENTRIES |
                     NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NUM_ENTRIES |
                     NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_STATIC_SIZE |
                     NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_SCHEMA_ID;
  schema.type = NVTX_PAYLOAD_SCHEMA_TYPE_STATIC;
  schema.entries = entries;
  schema.numEntries = 3;
  schema.payloadStaticSize = sizeof(Message);
  schema.schemaId = kSchema;
  nvtxPayloadSchemaRegister(domain, &schema);
  const Message message = {0xabc, 2048, 2};
  nvtxPayloadData_t data = {kSchema, sizeof message, &message};
  nvtxEventAttributes_t attributes = Named("reduce");
  attributes.payloadType = NVTX_PAYLOAD_TYPE_EXT;
  attributes.reserved0 = 1;  // how many payloads
  attributes.payload.ullValue = reinterpret_cast<uintptr_t>(&data);
  nvtxDomainRangePushEx(domain, &attributes);
  nvtxDomainRangePop(domain);
  attributes.message.ascii = "of unknown layout";
  data.schemaId = kSchema + 100;
  nvtxDomainRangePushEx(domain, &attributes);
  nvtxDomainRangePop(domain);
}

/// A range that is started here and ended in a child, which knows nothing of it.
void Across() {
  const nvtxRangeId_t range = nvtxRangeStartA("across processes");
  if (fork() == 0) {
    nvtxRangeEnd(range);
    nvtxMarkA("in the child");
    std::exit(0);
  }
  wait(nullptr);
}

void ShortThreads(int count) {
  constexpr int kAtOnce = 20;
  for (int done = 0; done < count; done += kAtOnce) Threads(kAtOnce, 1);
}

/// Children that all run at once and end by _exit.
void Processes(int count, int pairs) {
  int gate[2];
  if (pipe(gate) != 0) std::exit(1);
  for (int i = 0; i < count; ++i) {
    if (fork() != 0) continue;
    close(gate[1]);
    char byte = 0;
    if (read(gate[0], &byte, 1) != 0) _exit(1);  // ends when the parent opens the gate
    Pairs(pairs);
    _exit(0);
  }
  close(gate[1]);
  while (wait(nullptr) > 0) {
  }
}

/// Leaves the session and the terminal as daemons do; the first process waits for its end.
void Daemonise() {
  int end[2];
  if (pipe(end) != 0) std::exit(1);
  if (fork() == 0) {
    setsid();
    if (fork() != 0) _exit(0);
    if (chdir("/") != 0) _exit(1);
    for (int file = 0; file < 3; ++file) close(file);
    for (int file = 0; file < 3; ++file) open("/dev/null", O_RDWR);
    Pairs(30);
    _exit(0);
  }
  close(end[1]);
  char byte = 0;
  if (read(end[0], &byte, 1) != 0) std::exit(1);
  wait(nullptr);
}

/// Descriptors that a program does not know are closed, ours as well.
void Closed() {
  for (int file = 0; file < 1024; ++file) close(file);
  Threads(2, 20000);  // enough for the pool to grow
  if (fork() == 0) {
    Pairs(10);
    _exit(0);
  }
  wait(nullptr);
}

/// Ranges that are open when the process exits in order, on this thread and on another.
void Open() {
  nvtxRangeStartA("started, not ended");
  nvtxRangePushA("pushed, not popped");
  std::thread([] {
    nvtxRangePushA("pushed elsewhere");
    nvtxRangePushA("popped");
    nvtxRangePop();
    pause();
  }).detach();
  usleep(100000);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "pairs") {
    Pairs(std::atoi(argv[2]));
  } else if (what == "threads") {
    Threads(std::atoi(argv[2]), std::atoi(argv[3]));
  } else if (what == "fork") {
    Fork(argv[0]);
  } else if (what == "exec") {
    Exec(argv[0]);
  } else if (what == "forever") {
    Forever();
  } else if (what == "wide") {
    Wide();
  } else if (what == "domains") {
    Domains();
  } else if (what == "payload") {
    Payload();
  } else if (what == "across") {
    Across();
  } else if (what == "short_threads") {
    ShortThreads(std::atoi(argv[2]));
  } else if (what == "processes") {
    Processes(std::atoi(argv[2]), std::atoi(argv[3]));
  } else if (what == "daemon") {
    Daemonise();
  } else if (what == "closed") {
    Closed();
  } else if (what == "open") {
    Open();
  } else if (what == "everything") {
    Everything();
  } else {
    std::fprintf(stderr, "unknown: %s\n", what.c_str());
    return 2;
  }
  return 0;
}
