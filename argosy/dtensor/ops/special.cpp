// Special functions, number theory and complex numbers, element by element.
// They have the rules of plainer ops that go the same way.

#include "argosy/common/error.h"
#include "argosy/dtensor/ops/families.h"
#include "argosy/dtensor/ops/letters.h"

namespace argosy::dtensor {

namespace {

const Rule& rule_like(const RuleTable& table, const std::string& name) {
  const Rule* rule = table.find("aten::" + name);
  ARGOSY_ASSERT(rule != nullptr, "{} has no rule yet", name);
  return *rule;
}

// Every number becomes two in a new last dim, or two in the last one become
// one; both are linear.
std::vector<Strategy> pairs(const OpCall& call, bool apart) {
  const std::size_t ndim = call.shape(0).size() - (apart ? 0 : 1);
  const std::string letters = first_letters(ndim);
  const std::string whole = letters + "-";
  auto strategies =
      by_letters(call, {apart ? letters : whole}, {apart ? whole : letters});
  if (call.current(0).is_partial()) {
    strategies.push_back(call.strategy(call.current(0), call.current(0)));
  }
  return strategies;
}

std::vector<Strategy> view_as_real(const OpCall& call) {
  return pairs(call, true);
}

std::vector<Strategy> view_as_complex(const OpCall& call) {
  return call.shape(0).empty() ? std::vector<Strategy>() : pairs(call, false);
}

} // namespace

void add_special_rules(RuleTable& table) {
  table.add(
      "bitwise_left_shift bitwise_right_shift complex deg2rad frexp gcd "
      "hardshrink hardshrink_backward i0 igamma igammac lcm mvlgamma polar "
      "rad2deg special_airy_ai special_bessel_j0 special_bessel_j1 "
      "special_bessel_y0 special_bessel_y1 special_chebyshev_polynomial_t "
      "special_chebyshev_polynomial_u special_chebyshev_polynomial_v "
      "special_chebyshev_polynomial_w special_entr special_erfcx "
      "special_hermite_polynomial_h special_hermite_polynomial_he special_i0e "
      "special_i1 special_i1e special_laguerre_polynomial_l "
      "special_legendre_polynomial_p special_log_ndtr "
      "special_modified_bessel_i0 special_modified_bessel_i1 "
      "special_modified_bessel_k0 special_modified_bessel_k1 special_ndtri "
      "special_scaled_modified_bessel_k0 special_scaled_modified_bessel_k1 "
      "special_shifted_chebyshev_polynomial_t "
      "special_shifted_chebyshev_polynomial_u "
      "special_shifted_chebyshev_polynomial_v "
      "special_shifted_chebyshev_polynomial_w special_spherical_bessel_j0 "
      "special_xlog1py special_zeta",
      rule_like(table, "exp"));
  table.add("_conj _conj_physical _neg_view", rule_like(table, "neg"));
  table.add("view_as_real", {.strategies = view_as_real});
  table.add("view_as_complex", {.strategies = view_as_complex});
}

} // namespace argosy::dtensor
