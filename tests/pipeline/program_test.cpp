#include <gtest/gtest.h>
#include <torch/torch.h>

#include <memory>

#include "argosy/common/error.h"
#include "argosy/parallel/pipeline/cut/cut.h"
#include "argosy/parallel/pipeline/cut/part_runner.h"
#include "argosy/parallel/pipeline/cut/program.h"
#include "tests/pipeline/chained_parts.h"
#include "tests/pipeline/cut_models.h"

namespace argosy::testing {
namespace {

using pipeline::record;

class EachCutCase : public ::testing::TestWithParam<CutCase> {
 protected:
  void SetUp() override {
    const CutCase& test = GetParam();
    // What the first run does to buffers shall not differ between the two.
    whole_ = train_whole(*test.module, test.forward, test.inputs);
    set_back();
    program_ = std::make_shared<const Program>(
        record(*test.module, test.forward, test.inputs));
  }

  void set_back() {
    const torch::NoGradGuard no_grad;
    for (const auto& item : GetParam().module->named_buffers()) {
      item.value().copy_(at_first_.at(item.key()));
    }
  }

  void TearDown() override { set_back(); }

  const std::map<std::string, at::Tensor> at_first_ =
      collect(*GetParam().module, {}, {}).buffers;
  Trained whole_;
  std::shared_ptr<const Program> program_;
};

TEST_P(EachCutCase, RunsAgainBitForBit) {
  const CutCase& test = GetParam();
  expect_same(collect(*test.module, {}, {}).buffers, at_first_);
  const auto runners = runners_of(program_, pipeline::cut(program_->graph, {}));
  expect_same(train_parts(*test.module, runners, test.inputs), whole_);
}

TEST_P(EachCutCase, RunsInPartsBitForBit) {
  const CutCase& test = GetParam();
  const auto runners =
      runners_of(program_, pipeline::cut(program_->graph, test.points));
  EXPECT_EQ(runners.size(), test.points.size() + 1);
  expect_same(train_parts(*test.module, runners, test.inputs), whole_);
}

INSTANTIATE_TEST_SUITE_P(
    Program,
    EachCutCase,
    ::testing::ValuesIn(cut_cases()),
    [](const auto& each) { return each.param.name; });

} // namespace
} // namespace argosy::testing
