#pragma once

#include <gtest/gtest.h>
#include <torch/types.h>

#include <vector>

namespace argosy::testing {

// Bit for bit.
inline void expect_equal(
    const std::vector<at::Tensor>& got,
    const std::vector<at::Tensor>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_TRUE(torch::equal(got[i], expected[i])) << i << "\n"
                                                   << got[i] << "\n"
                                                   << expected[i];
  }
}

} // namespace argosy::testing
