# The only file that knows the layout of the torch wheel (torch==2.15.0 from PyPI, which is LibTorch).
# find_package(Torch) on that wheel wants a CUDA toolkit and nvcc, so the libraries are imported by hand.

set(TELLER_VENV "$ENV{TELLER_VENV}" CACHE PATH "Virtual environment that holds the torch wheel")
if(NOT TELLER_VENV)
  set(TELLER_VENV "${PROJECT_SOURCE_DIR}/.venv")
endif()
file(GLOB TELLER_SITE_PACKAGES LIST_DIRECTORIES true "${TELLER_VENV}/lib/python3*/site-packages")
set(TELLER_TORCH_DIR "${TELLER_SITE_PACKAGES}/torch")
if(NOT EXISTS "${TELLER_TORCH_DIR}/lib/libtorch_cpu.so")
  message(FATAL_ERROR "LibTorch: no torch wheel under '${TELLER_VENV}'. Run scripts/setup.sh, set TELLER_VENV, "
    "or configure with -DTELLER_WITH_TORCH=OFF.")
endif()

add_library(teller_libtorch INTERFACE)
add_library(teller::libtorch ALIAS teller_libtorch)
target_include_directories(teller_libtorch SYSTEM INTERFACE
  "${TELLER_TORCH_DIR}/include" "${TELLER_TORCH_DIR}/include/torch/csrc/api/include")
target_compile_definitions(teller_libtorch INTERFACE USE_C10D_GLOO USE_DISTRIBUTED)
target_link_libraries(teller_libtorch INTERFACE
  "${TELLER_TORCH_DIR}/lib/libtorch_cpu.so" "${TELLER_TORCH_DIR}/lib/libc10.so")
target_link_options(teller_libtorch INTERFACE
  -Wl,--allow-shlib-undefined "-Wl,-rpath,${TELLER_TORCH_DIR}/lib")
if(TELLER_WITH_CUDA)
  file(GLOB TELLER_NVIDIA_LIB_DIRS LIST_DIRECTORIES true "${TELLER_SITE_PACKAGES}/nvidia/*/lib")
  target_compile_definitions(teller_libtorch INTERFACE USE_C10D_NCCL TELLER_WITH_CUDA)
  target_link_libraries(teller_libtorch INTERFACE
    "${TELLER_TORCH_DIR}/lib/libtorch_cuda.so" "${TELLER_TORCH_DIR}/lib/libc10_cuda.so")
  foreach(directory ${TELLER_NVIDIA_LIB_DIRS})
    target_link_options(teller_libtorch INTERFACE "-Wl,-rpath-link,${directory}")
  endforeach()
endif()

# Headers only, for the agent: nothing it offers may link torch.
add_library(teller_torch_headers INTERFACE)
add_library(teller::torch_headers ALIAS teller_torch_headers)
target_include_directories(teller_torch_headers SYSTEM INTERFACE
  "${TELLER_TORCH_DIR}/include" "${TELLER_TORCH_DIR}/include/torch/csrc/api/include")

# CUDA headers (CUPTI, NVTX) travel in the wheel too.
file(GLOB TELLER_CUDA_HEADERS LIST_DIRECTORIES true "${TELLER_SITE_PACKAGES}/nvidia/cu13/include")
