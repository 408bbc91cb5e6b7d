# Compiler flags for everything that is built here.
add_library(dibs_flags INTERFACE)
target_compile_definitions(dibs_flags INTERFACE _GNU_SOURCE)
target_compile_options(dibs_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes
  -Wvla -Wwrite-strings -Wpointer-arith -Wundef -Wformat=2 -Wno-format-nonliteral
  # gcc: a text that is cut short is meant to be
  $<$<C_COMPILER_ID:GNU>:-Wno-format-truncation>
  -fvisibility=hidden -fno-common)
if(DIBS_WERROR)
  target_compile_options(dibs_flags INTERFACE -Werror)
endif()
if(DIBS_SANITIZE)
  target_compile_options(dibs_flags INTERFACE
    -fsanitize=${DIBS_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -g)
  target_link_options(dibs_flags INTERFACE -fsanitize=${DIBS_SANITIZE})
else()
  # a library or module that lacks a symbol does not link; sanitizers leave theirs open
  target_link_options(dibs_flags INTERFACE -Wl,-z,defs)
endif()
if(DIBS_COVERAGE)
  # threads count too; processes that are killed do not. Lines that are moved and merged are
  # counted wrongly, so there is less of that; and code that counts confuses one warning.
  target_compile_options(dibs_flags INTERFACE --coverage -fprofile-update=atomic -O1
                                              -Wno-maybe-uninitialized)
  target_link_options(dibs_flags INTERFACE --coverage)
endif()
find_package(Threads REQUIRED)
target_link_libraries(dibs_flags INTERFACE Threads::Threads ${CMAKE_DL_LIBS})

# A release inlines across files: worth 15 % on the path of an uncontended lock. The static
# library keeps ordinary code as well, for those who link without it.
if(CMAKE_BUILD_TYPE STREQUAL "Release" AND NOT DIBS_SANITIZE AND CMAKE_C_COMPILER_ID STREQUAL "GNU")
  include(CheckIPOSupported)
  check_ipo_supported(RESULT dibs_can_inline LANGUAGES C)
  if(dibs_can_inline)
    set(CMAKE_INTERPROCEDURAL_OPTIMIZATION ON)
    target_compile_options(dibs_flags INTERFACE -ffat-lto-objects)
  endif()
endif()
