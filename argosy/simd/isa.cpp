#include "argosy/simd/isa.h"

#include <cpuid.h>

#include <algorithm>
#include <string>

#include "argosy/common/error.h"

namespace argosy::simd {

namespace {

constexpr std::string_view kIsaNames[] = {"baseline", "avx2", "avx512"};

Isa parse_isa(std::string_view name) {
  const auto* found =
      std::find(std::begin(kIsaNames), std::end(kIsaNames), name);
  ARGOSY_CHECK(
      found != std::end(kIsaNames),
      "[simd.isa] ARGOSY_ISA is '{}', expected baseline, avx2 or avx512",
      name);
  return static_cast<Isa>(found - std::begin(kIsaNames));
}

// Not a name that every compiler's __builtin_cpu_supports() knows.
bool has_f16c() {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}

bool has_avx2() {
  return __builtin_cpu_supports("avx2") && has_f16c();
}

// What the flags of the AVX-512 kernels allow the compiler to use.
bool has_avx512() {
  return __builtin_cpu_supports("avx512f") &&
      __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}

Isa probe() {
  __builtin_cpu_init();
  if (!has_avx2()) {
    return Isa::Baseline;
  }
  return has_avx512() ? Isa::Avx512 : Isa::Avx2;
}

} // namespace

std::string_view to_string(Isa isa) {
  return kIsaNames[static_cast<int>(isa)];
}

Isa highest_isa() {
  // Once: under a hypervisor the cpuid instruction takes microseconds.
  static const Isa isa = probe();
  return isa;
}

Isa choose_isa(const Environment& environment, Isa highest) {
  const auto wanted = environment.find("ARGOSY_ISA");
  return wanted ? std::min(parse_isa(*wanted), highest) : highest;
}

Isa current_isa() {
  static const Isa isa = choose_isa(Environment::of_process(), highest_isa());
  return isa;
}

} // namespace argosy::simd
