// Entrance of LibTorch: three RecordFunction callbacks, registered once and switched on and off.
// Nothing here links torch: its functions are looked up in the libtorch_cpu.so that the target has
// loaded. The only file that sees torch headers.
#include <ATen/record_function.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <unistd.h>

#include <new>

#include "src/agent/cupti_entrance.h"
#include "src/agent/delays.h"
#include "src/agent/entrances.h"
#include "src/agent/recorder.h"

namespace teller::agent {

namespace {

/// What we use of torch; mangled names hold for 2.11 to 2.15.
struct TorchFunctions {
  at::CallbackHandle (*add_global_callback)(at::RecordFunctionCallback);
  void (*disable_callback)(at::CallbackHandle);
  void (*reenable_callback)(at::CallbackHandle);
  const char* (*name)(const at::RecordFunction*);
  std::size_t (*num_inputs)(const at::RecordFunction*);
  int32_t (*get_numel)(void* tensor, int64_t* count);
  int32_t (*get_dtype)(void* tensor, int32_t* type);
  int32_t (*get_dim)(void* tensor, int64_t* dimensions);
  int32_t (*get_sizes)(void* tensor, int64_t** sizes);
};

TorchFunctions torch;
bool attached, refused;  // background thread only
at::CallbackHandle scope_callback, operator_callback, shape_callback;
bool scopes_on, operators_on, shapes_on;

constexpr uint32_t kScopeDelays =
    DelayAtStartBit(TELLER_TARGET_RANGE) | DelayAtEndBit(TELLER_TARGET_RANGE) |
    DelayAtStartBit(TELLER_TARGET_COLLECTIVE) | DelayAtEndBit(TELLER_TARGET_COLLECTIVE);
constexpr uint32_t kOperatorDelays =
    DelayAtStartBit(TELLER_TARGET_OPERATOR) | DelayAtEndBit(TELLER_TARGET_OPERATOR);

// ---- What inputs say, by torch's C interface, which holds over versions

/// A tensor's handle of the C interface is the address of the at::Tensor, with which the value
/// begins; NULL where the value is none.
void* TensorHandle(const c10::IValue& value) noexcept {
  return value.isTensor() ? const_cast<c10::IValue*>(&value) : nullptr;
}

/// False where this torch lays values out in another way than our headers.
bool InputsAreReadable(const at::RecordFunction& function) noexcept {
  return torch.get_numel != nullptr && torch.get_dtype != nullptr && torch.get_dim != nullptr &&
         torch.get_sizes != nullptr && torch.num_inputs != nullptr &&
         function.inputs().size() == torch.num_inputs(&function);
}

constexpr std::size_t kShapeBytes = 256;

/// Appends '[2,3]', or '-' for what is no tensor, cut to the buffer.
std::size_t AppendShape(const c10::IValue& value, char* text, std::size_t used) noexcept {
  const auto put = [&](const char* format, long long number) {
    if (used + 24 < kShapeBytes)
      used += static_cast<std::size_t>(snprintf(text + used, kShapeBytes - used, format, number));
  };
  void* handle = TensorHandle(value);
  int64_t dimensions = 0;
  int64_t* sizes = nullptr;
  if (used > 0) put(" ", 0);
  if (handle == nullptr || torch.get_dim(handle, &dimensions) != 0 ||
      torch.get_sizes(handle, &sizes) != 0) {
    put("-", 0);
    return used;
  }
  put("[", 0);
  for (int64_t i = 0; i < dimensions; ++i) put(i == 0 ? "%lld" : ",%lld", sizes[i]);
  put("]", 0);
  return used;
}

/// Shapes of the inputs, for example '[8,16] [16,4] -'; UINT32_MAX where they cannot be read.
uint32_t ShapesOf(const at::RecordFunction& function) noexcept {
  if (!InputsAreReadable(function)) return UINT32_MAX;
  char text[kShapeBytes] = "";
  std::size_t used = 0;
  for (const c10::IValue& value : function.inputs()) used = AppendShape(value, text, used);
  return used == 0 ? UINT32_MAX : InternText(text, used);
}

// ---- Operators: hot. Begin and end lie on one thread and nest, so the thread's own stack finds
// them again -----------

int32_t TieCalls(Thread* thread) noexcept {
  const uint32_t number = thread->operators_numbered++ & INT32_MAX;
  EnterTiedOperator(number);
  return static_cast<int32_t>(number);
}

void Begin(const at::RecordFunction& function, bool with_shapes) noexcept {
  Thread* thread = CurrentThread();
  if (thread == nullptr) return;
  if (thread->operator_depth >= kMaxOperatorDepth) return CountDrop(TELLER_DROP_STACK_OVERFLOW);
  const char* name = torch.name(&function);
  const uint32_t switches = Switches();
  BegunOperator& begun = thread->operators[thread->operator_depth++];
  begun.function = &function;
  begun.name = NameId(thread, name);
  begun.shapes = with_shapes ? ShapesOf(function) : UINT32_MAX;
  begun.number = -1;
  if (__builtin_expect((switches & kTieCalls) != 0, false)) begun.number = TieCalls(thread);
  begun.begin = Now();
  if (__builtin_expect((switches & DelayAtStartBit(TELLER_TARGET_OPERATOR)) != 0, false)) {
    DelayAtStart({TELLER_TARGET_OPERATOR, name, 0});
  }
}

std::unique_ptr<at::ObserverContext> OnOperatorStart(const at::RecordFunction& function) noexcept {
  Begin(function, false);
  return nullptr;
}

std::unique_ptr<at::ObserverContext> OnOperatorWithShapesStart(
    const at::RecordFunction& function) noexcept {
  Begin(function, true);
  return nullptr;
}

/// Takes the record of `function` off the thread's stack, with everything above it that never
/// ended.
bool TakeOperator(Thread* thread, const void* function, BegunOperator& begun) noexcept {
  for (uint32_t i = thread->operator_depth; i > 0; --i) {
    if (thread->operators[i - 1].function != function) continue;
    begun = thread->operators[i - 1];
    for (uint32_t left = thread->operator_depth; left >= i; --left) {
      if (thread->operators[left - 1].number >= 0) LeaveTiedOperator();
    }
    thread->operator_depth = i - 1;
    return true;
  }
  return false;
}

void OnOperatorEnd(const at::RecordFunction& function, at::ObserverContext*) noexcept {
  Thread* thread = CurrentThread();
  BegunOperator begun;
  if (thread == nullptr || !TakeOperator(thread, &function, begun)) return;
  const uint32_t switches = Switches();
  if (__builtin_expect((switches & DelayAtEndBit(TELLER_TARGET_OPERATOR)) != 0, false)) {
    DelayAtEnd({TELLER_TARGET_OPERATOR, torch.name(&function), 0}, begun.begin);
  }
  if ((switches & kRecordOperators) == 0) return;
  TellerRecord* record = NextRecord(thread);
  if (record == nullptr) return;
  FillRecord(*record, {begun.begin, Now(), begun.name, TELLER_LAYER_BACKEND, TELLER_KIND_OPERATOR,
                       TELLER_SOURCE_TORCH, thread->tid});
  record->comm = begun.shapes;
  record->sequence = begun.number;
  CommitRecord(thread);
}

// ---- User scopes and collectives: rarer, and may end on another thread, so they carry a context

struct ScopeContext final : at::ObserverContext {
  uint64_t begin = 0;
  int64_t bytes = -1;
  uint32_t name = 0;
  uint32_t tid = 0;
  bool collective = false;
  bool delayed_by_device =
      false;  ///< the device runtime's own record of this collective is the one to perturb
};

bool StartsWith(const char* text, const char* prefix) noexcept {
  return strncmp(text, prefix, strlen(prefix)) == 0;
}

bool IsCollective(const char* name) noexcept {
  return StartsWith(name, "gloo:") || StartsWith(name, "nccl:") || StartsWith(name, "mpi:") ||
         StartsWith(name, "ucc:");
}

bool IsPointToPoint(const char* name) noexcept {
  const char* colon = strchr(name, ':');
  return StartsWith(colon + 1, "send") || StartsWith(colon + 1, "recv");
}

/// Bytes of one element by c10::ScalarType; 0: a type we do not know, or one without a whole number
/// of bytes.
int64_t ElementBytes(int32_t scalar_type) noexcept {
  constexpr int8_t kBytes[] = {1, 1, 2, 4, 8, 2, 4, 8, 4, 8, 16, 1, 1, 1, 4,
                               2, 1, 2, 4, 8, 0, 0, 0, 1, 1, 1,  1, 2, 4, 8};
  return scalar_type >= 0 && scalar_type < static_cast<int32_t>(sizeof kBytes) ? kBytes[scalar_type]
                                                                               : 0;
}

/// Bytes of one input that is a tensor; -1 where it is none.
int64_t TensorBytes(const c10::IValue& value) noexcept {
  void* handle = TensorHandle(value);
  int64_t count = 0;
  int32_t type = -1;
  if (handle == nullptr) return -1;
  if (torch.get_numel(handle, &count) != 0 || torch.get_dtype(handle, &type) != 0) return -1;
  return ElementBytes(type) > 0 ? count * ElementBytes(type) : -1;
}

int64_t InputBytes(const at::RecordFunction& function) noexcept {
  if (!InputsAreReadable(function)) return -1;
  int64_t bytes = -1;
  for (const c10::IValue& value : function.inputs()) {
    const int64_t tensor_bytes = TensorBytes(value);
    if (tensor_bytes >= 0) bytes = (bytes < 0 ? 0 : bytes) + tensor_bytes;
  }
  return bytes;
}

PerturbedCall ScopeCall(const ScopeContext& context, const char* name) noexcept {
  return {context.collective ? uint32_t{TELLER_TARGET_COLLECTIVE} : uint32_t{TELLER_TARGET_RANGE},
          name, 0};
}

std::unique_ptr<at::ObserverContext> OnScopeStart(const at::RecordFunction& function) noexcept {
  Thread* thread = CurrentThread();
  if (thread == nullptr) return nullptr;
  std::unique_ptr<ScopeContext> context(new (std::nothrow) ScopeContext);
  if (context == nullptr) return nullptr;
  const char* name = torch.name(&function);
  context->name = NameId(thread, name);
  context->tid = thread->tid;
  context->collective = IsCollective(name);
  if (context->collective) {
    context->bytes = InputBytes(function);
    context->delayed_by_device = g_state->device_collectives.load(std::memory_order_relaxed) > 0;
  }
  context->begin = Now();
  const PerturbedCall call = ScopeCall(*context, name);
  if ((Switches() & DelayAtStartBit(call.target)) != 0 && !context->delayed_by_device)
    DelayAtStart(call);
  return context;
}

void WriteScope(Thread* thread, const ScopeContext& context, const char* name,
                uint64_t end) noexcept {
  const bool other_thread = thread->tid != context.tid;
  RecordHead head{
      context.begin,     end,
      context.name,      TELLER_LAYER_ENGINE,
      TELLER_KIND_RANGE, TELLER_SOURCE_TORCH,
      context.tid,       static_cast<uint16_t>(other_thread ? TELLER_RECORD_OTHER_THREAD_END : 0)};
  if (context.collective) {
    head.layer = TELLER_LAYER_COMM;
    head.kind = IsPointToPoint(name) ? TELLER_KIND_P2P : TELLER_KIND_COLLECTIVE;
  }
  TellerRecord* record = NextRecord(thread);
  if (record == nullptr) return;
  FillRecord(*record, head);
  record->bytes = context.bytes;
  CommitRecord(thread);
}

void OnScopeEnd(const at::RecordFunction& function, at::ObserverContext* observer) noexcept {
  Thread* thread = CurrentThread();
  if (observer == nullptr || thread == nullptr) return;
  const auto& context = static_cast<const ScopeContext&>(*observer);
  const char* name = torch.name(&function);
  const PerturbedCall call = ScopeCall(context, name);
  const uint32_t switches = Switches();
  if ((switches & DelayAtEndBit(call.target)) != 0 && !context.delayed_by_device)
    DelayAtEnd(call, context.begin);
  if ((switches & kRecordScopes) != 0) WriteScope(thread, context, name, Now());
}

// ---- Attaching

template <typename Function>
bool Find(void* library, const char* symbol, Function& function) noexcept {
  function = reinterpret_cast<Function>(dlsym(library, symbol));
  return function != nullptr;
}

bool FindFunctions(void* library) noexcept {
  Find(library, "aoti_torch_get_numel", torch.get_numel);
  Find(library, "aoti_torch_get_dtype", torch.get_dtype);
  Find(library, "aoti_torch_get_dim", torch.get_dim);
  Find(library, "aoti_torch_get_sizes", torch.get_sizes);
  Find(library, "_ZNK2at14RecordFunction10num_inputsEv", torch.num_inputs);
  return Find(library, "_ZN2at17addGlobalCallbackENS_22RecordFunctionCallbackE",
              torch.add_global_callback) &&
         Find(library, "_ZN2at15disableCallbackEm", torch.disable_callback) &&
         Find(library, "_ZN2at16reenableCallbackEm", torch.reenable_callback) &&
         Find(library, "_ZNK2at14RecordFunction4nameEv", torch.name);
}

/// The minor version of a torch 2, from the wheel's version.py or LibTorch's build-version; -1
/// where unreadable.
int TorchMinor(void* library) noexcept {
  link_map* map = nullptr;
  if (dlinfo(library, RTLD_DI_LINKMAP, &map) != 0 || map == nullptr) return -1;
  const char* slash = strrchr(map->l_name, '/');
  if (slash == nullptr) return -1;
  for (const char* name : {"version.py", "build-version"}) {
    char path[1024], text[2048];
    snprintf(path, sizeof path, "%.*s/../%s", static_cast<int>(slash - map->l_name), map->l_name,
             name);
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) continue;
    const ssize_t got = read(file, text, sizeof text - 1);
    close(file);
    text[got > 0 ? got : 0] = 0;
    const char* version = strstr(text, "__version__ =");
    int minor = -1;
    if (sscanf(version == nullptr ? text : version,
               version == nullptr ? "2.%d" : "__version__ = '2.%d", &minor) == 1) {
      return minor;
    }
  }
  return -1;
}

at::CallbackHandle Register(at::RecordFunctionCallback::StartCallback start,
                            at::RecordFunctionCallback::EndCallback end,
                            const std::unordered_set<at::RecordScope>& scopes,
                            bool needs_inputs = false) {
  at::RecordFunctionCallback callback(start, end);
  callback.scopes(scopes).needsInputs(needs_inputs);
  const at::CallbackHandle handle = torch.add_global_callback(callback);
  torch.disable_callback(handle);
  return handle;
}

constexpr int kFirstMinor = 11, kLastMinor = 15;

bool IsKnownVersion(void* library) noexcept {
  const int minor = TorchMinor(library);
  if (minor >= kFirstMinor && minor <= kLastMinor) return true;
  char line[160];
  snprintf(line, sizeof line,
           "torch 2.%d is not one of 2.%d to 2.%d: its operators are not captured", minor,
           kFirstMinor, kLastMinor);
  Note(minor < 0 ? "a torch of unknown version: its operators are not captured" : line);
  return false;
}

void Attach(void* library) noexcept {
  const int64_t begin_ns = MonotonicNs();
  refused = !IsKnownVersion(library) || !FindFunctions(library);
  if (refused) return;
  try {
    scope_callback = Register(OnScopeStart, OnScopeEnd, {at::RecordScope::USER_SCOPE});
    const std::unordered_set<at::RecordScope> operators = {at::RecordScope::FUNCTION,
                                                           at::RecordScope::BACKWARD_FUNCTION,
                                                           at::RecordScope::TORCHSCRIPT_FUNCTION};
    operator_callback = Register(OnOperatorStart, OnOperatorEnd, operators);
    shape_callback = Register(OnOperatorWithShapesStart, OnOperatorEnd, operators, true);
  } catch (...) {
    Note("torch refused our callbacks: its operators are not captured");
    refused = true;
    return;
  }
  attached = true;
  NoteAttached(TELLER_SOURCE_TORCH, begin_ns);
  FollowTorchSwitches();
}

void Follow(at::CallbackHandle callback, bool wanted, bool& on) noexcept {
  if (wanted == on) return;
  on = wanted;
  wanted ? torch.reenable_callback(callback) : torch.disable_callback(callback);
}

}  // namespace

void PollTorch() noexcept {
  if (attached || refused) return;
  void* library = dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD);
  if (library != nullptr) Attach(library);
}

bool TorchIsSettled() noexcept { return attached || refused; }

void FollowTorchSwitches() noexcept {
  if (!attached) return;
  const uint32_t switches = Switches();
  Follow(scope_callback, (switches & (kRecordScopes | kScopeDelays)) != 0, scopes_on);
  const bool operators = (switches & (kRecordOperators | kOperatorDelays)) != 0;
  const bool shapes = operators && (switches & kRecordShapes) != 0;
  Follow(operator_callback, operators && !shapes, operators_on);
  Follow(shape_callback, shapes, shapes_on);
}

}  // namespace teller::agent
