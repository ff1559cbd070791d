# Debian's LibTorch by default; an upstream one through CMAKE_PREFIX_PATH.
# Debian's 1.13.1 calls itself 1.13.0, so ask for 1.13 and no more.
find_package(Threads REQUIRED)
find_package(Torch 1.13 REQUIRED)
find_package(Gloo REQUIRED)
find_package(CURL REQUIRED)
find_package(ZLIB REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(hwloc REQUIRED IMPORTED_TARGET hwloc)
pkg_check_modules(liburing REQUIRED IMPORTED_TARGET liburing)
pkg_check_modules(libcrypto REQUIRED IMPORTED_TARGET libcrypto)
pkg_check_modules(rocksdb REQUIRED IMPORTED_TARGET rocksdb)
pkg_check_modules(libzstd REQUIRED IMPORTED_TARGET libzstd)
pkg_check_modules(libssl REQUIRED IMPORTED_TARGET libssl)
# Only its header, which is compiled for each instruction set.
pkg_check_modules(libxxhash REQUIRED IMPORTED_TARGET libxxhash)

# Only its header: the library is loaded at run time, where a launcher has it.
pkg_check_modules(pmix QUIET pmix)
