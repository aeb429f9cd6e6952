# One target per room, warnings and sanitizers as interface targets, one way to add a test.

set(TELLER_TORCH_POOL torch_compile)
set_property(GLOBAL APPEND PROPERTY JOB_POOLS ${TELLER_TORCH_POOL}=2)

add_library(teller_settings INTERFACE)
target_compile_features(teller_settings INTERFACE cxx_std_20)
target_include_directories(teller_settings INTERFACE "${PROJECT_SOURCE_DIR}")
target_compile_options(teller_settings INTERFACE -Wall -Wextra -Wpedantic -Wno-missing-field-initializers)
if(TELLER_SANITIZE)
  target_compile_options(teller_settings INTERFACE -fsanitize=${TELLER_SANITIZE} -fno-omit-frame-pointer)
  target_link_options(teller_settings INTERFACE -fsanitize=${TELLER_SANITIZE})
endif()

if(TELLER_BUILD_FUZZERS)
  target_compile_options(teller_settings INTERFACE -fsanitize=fuzzer-no-link)
endif()

# teller_add_room(NAME SOURCES ... HEADERS ... DEPENDS teller::x ... PRIVATE_DEPENDS ...)
# A static library teller_NAME with alias teller::NAME; header-only rooms become INTERFACE libraries.
function(teller_add_room name)
  cmake_parse_arguments(ARG "" "" "SOURCES;HEADERS;DEPENDS;PRIVATE_DEPENDS" ${ARGN})
  if(ARG_SOURCES)
    add_library(teller_${name} STATIC ${ARG_SOURCES})
    set_target_properties(teller_${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
    target_sources(teller_${name} PUBLIC FILE_SET HEADERS BASE_DIRS "${PROJECT_SOURCE_DIR}" FILES ${ARG_HEADERS})
    target_link_libraries(teller_${name} PUBLIC teller_settings ${ARG_DEPENDS} PRIVATE ${ARG_PRIVATE_DEPENDS})
  else()
    add_library(teller_${name} INTERFACE)
    target_sources(teller_${name} INTERFACE FILE_SET HEADERS BASE_DIRS "${PROJECT_SOURCE_DIR}" FILES ${ARG_HEADERS})
    target_link_libraries(teller_${name} INTERFACE teller_settings ${ARG_DEPENDS})
  endif()
  add_library(teller::${name} ALIAS teller_${name})
endfunction()

# For code that is compiled more often than it runs hot: a fifth off its build time.
set(TELLER_QUICK_BUILD "$<$<CONFIG:RelWithDebInfo>:-O1>")

# teller_add_test(NAME LABEL unit SOURCES ... DEPENDS ... [TIMEOUT s] [SERIAL])
# One GoogleTest program; every case becomes a CTest test carrying the label.
function(teller_add_test name)
  cmake_parse_arguments(ARG "SERIAL" "LABEL;TIMEOUT" "SOURCES;DEPENDS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  set(serial)
  if(ARG_SERIAL)
    set(serial RUN_SERIAL TRUE)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE teller_settings ${ARG_DEPENDS} GTest::gmock GTest::gtest_main)
  target_compile_options(${name} PRIVATE ${TELLER_QUICK_BUILD})
  target_compile_definitions(${name} PRIVATE
    TELLER_SOURCE_DIR="${PROJECT_SOURCE_DIR}" TELLER_BINARY_DIR="${PROJECT_BINARY_DIR}")
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
  gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60
    PROPERTIES LABELS "${ARG_LABEL}" TIMEOUT ${ARG_TIMEOUT} ${serial})
endfunction()

# Puts a target's compilations into the pool of depth 2 and keeps fmt's header out of sight (torch carries its own).
function(teller_uses_torch target)
  target_link_libraries(${target} PRIVATE teller::libtorch)
  set_target_properties(${target} PROPERTIES JOB_POOL_COMPILE ${TELLER_TORCH_POOL})
endfunction()
