# How this project compiles: warnings, sanitizers, ccache, mold. Nothing here
# reaches a consumer of the installed package.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

if(PROJECT_IS_TOP_LEVEL)
  find_program(ARGOSY_CCACHE ccache)
  if(ARGOSY_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
    set(CMAKE_CXX_COMPILER_LAUNCHER
        ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_DEPEND=1
        ${ARGOSY_CCACHE})
  endif()
  find_program(ARGOSY_MOLD mold)
  if(ARGOSY_MOLD)
    add_link_options(-fuse-ld=mold)
  endif()
endif()

# Flags for our own targets, linked PRIVATE.
add_library(argosy_flags INTERFACE)
target_compile_options(argosy_flags INTERFACE -Wall -Wextra -Wshadow -Werror
  -Wno-missing-field-initializers -Wno-subobject-linkage
  -fpch-preprocess)
if(ARGOSY_SANITIZE)
  # GCC's warning is wrong about code that sanitizers have changed.
  target_compile_options(argosy_flags INTERFACE
    -fsanitize=${ARGOSY_SANITIZE} -fno-omit-frame-pointer
    -Wno-maybe-uninitialized)
  target_link_options(argosy_flags INTERFACE -fsanitize=${ARGOSY_SANITIZE})
endif()
