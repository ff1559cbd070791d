#include "argosy/torch_hooks/openblas.h"

#include <gtest/gtest.h>
#include <torch/types.h>

namespace argosy::torch_hooks {
namespace {

TEST(OpenBlas, BetterKernelsThanThoseForUnknownModels) {
  EXPECT_EQ(
      better_openblas_core("Prescott", simd::Isa::Avx512, {}), "SkylakeX");
  EXPECT_EQ(better_openblas_core("Prescott", simd::Isa::Avx2, {}), "Haswell");
}

TEST(OpenBlas, KeepsWhatIsRightOrWanted) {
  EXPECT_EQ(better_openblas_core("Prescott", simd::Isa::Baseline, {}), "");
  EXPECT_EQ(better_openblas_core("Zen", simd::Isa::Avx2, {}), "");
  EXPECT_EQ(better_openblas_core("", simd::Isa::Avx512, {}), "");
  const Environment wanted{{"OPENBLAS_CORETYPE", "Prescott"}};
  EXPECT_EQ(better_openblas_core("Prescott", simd::Isa::Avx512, wanted), "");
}

TEST(OpenBlas, ThisProcessHasThem) {
  ASSERT_FALSE(openblas_core().empty())
      << "torch uses another BLAS than that of tools/packages.txt";
  install_openblas_core();
  EXPECT_EQ(better_openblas_core(openblas_core(), simd::highest_isa(), {}), "");
  const auto a = torch::arange(35 * 70).reshape({35, 70}).remainder(7);
  const auto b = torch::arange(70 * 33).reshape({70, 33}).remainder(5);
  EXPECT_TRUE(torch::equal(
      a.to(torch::kFloat).matmul(b.to(torch::kFloat)),
      a.matmul(b).to(torch::kFloat)));
}

} // namespace
} // namespace argosy::torch_hooks
