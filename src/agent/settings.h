#pragma once

#include <cstdint>

namespace teller::agent {

/// What the environment said at load. Copied once: a target may overwrite its environment later
/// (setproctitle does).
struct Settings {
  bool on;       ///< TELLER_RUN_DIR was set
  int32_t rank;  ///< RANK; -1: not set
  char run_dir[512];
  char node[64];  ///< TELLER_NODE, else the host's name
  char host[64];
  char next_nvtx[512];      ///< NVTX tool of the user
  char next_activity[512];  ///< tool of the user for the CPU device runtime
  char next_cuda[512];  ///< CUDA injection library of the user, to be loaded before CUPTI is taken
  char cupti_library[512];  ///< TELLER_CUPTI_LIBRARY
};

/// Copies the environment; only the first call does anything. Plain memory that needs no
/// constructor.
const Settings& LoadSettings() noexcept;

/// The name of the variable that keeps what NVTX_INJECTION64_PATH held before.
inline constexpr char kNextNvtxVariable[] = "TELLER_NEXT_NVTX_INJECTION64_PATH";
inline constexpr char kNextCudaVariable[] = "TELLER_NEXT_CUDA_INJECTION64_PATH";
inline constexpr char kNextActivityVariable[] = "TELLER_NEXT_CPU_STREAM_INJECTION64_PATH";

/// Field 22 of /proc/self/stat: clock ticks between boot and the start of this process; 0 when
/// unreadable.
uint64_t ProcessStartTicks() noexcept;

/// Arguments joined by spaces, cut to `size` with its closing zero.
void CommandLine(char* text, uint32_t size) noexcept;

/// The kernel's short name of the process (that of its first thread).
void ShortName(char* text, uint32_t size) noexcept;

/// The rank that a title's first word names: 'VLLM::Worker_TP1' is 1. -1 where it names none, or
/// where more than one parallel dimension is above zero, since their sizes are not known here.
int32_t RankOfTitle(const char* title) noexcept;

/// Inode of this process's pid namespace; 0 when unreadable.
uint32_t PidNamespace() noexcept;

}  // namespace teller::agent
