#include "argosy/comm/kernels/openblas.h"

#include <dlfcn.h>

#include <cstdlib>
#include <string>

namespace argosy::comm {

namespace {

// Null when no library of the process has such a function.
template <typename F>
F* find_function(const char* name) {
  return reinterpret_cast<F*>(::dlsym(RTLD_DEFAULT, name));
}

// As the library is loaded, after OpenBLAS, on which it depends: no thread
// multiplies matrices yet.
[[gnu::constructor]] void choose_kernels() {
  const std::string core(better_openblas_core(
      openblas_core(), highest_isa(), Environment::of_process()));
  auto* const quit = find_function<void()>("gotoblas_dynamic_quit");
  auto* const init = find_function<void()>("gotoblas_dynamic_init");
  if (core.empty() || quit == nullptr || init == nullptr) {
    return;
  }
  ::setenv("OPENBLAS_CORETYPE", core.c_str(), 1);
  quit();
  init();
}

} // namespace

std::string_view better_openblas_core(
    std::string_view core, Isa highest, const Environment& environment) {
  if (core != "Prescott" || highest == Isa::Baseline ||
      environment.has("OPENBLAS_CORETYPE")) {
    return "";
  }
  return highest == Isa::Avx512 ? "SkylakeX" : "Haswell";
}

std::string_view openblas_core() {
  auto* const name = find_function<const char*()>("openblas_get_corename");
  return name == nullptr ? "" : name();
}

} // namespace argosy::comm
