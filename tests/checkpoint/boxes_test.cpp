#include "argosy/checkpoint/boxes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "tests/checkpoint/random_boxes.h"
#include "tests/support/refusal.h"

namespace argosy::checkpoint {
namespace {

using testing::refusal;

TEST(DTypes, HaveNamesAndSizes) {
  EXPECT_EQ(element_bytes(DType::kBool), 1u);
  EXPECT_EQ(element_bytes(DType::kBF16), 2u);
  EXPECT_EQ(element_bytes(DType::kC64), 8u);
  for (int i = 0; i <= static_cast<int>(DType::kU64); ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_EQ(dtype_of(to_string(dtype)), dtype);
  }
  for (const char* name : {"F4", "F6_E2M3", "F8_E8M0", "f32", "", "float"}) {
    const std::string message =
        refusal<CheckpointError>([&] { (void)dtype_of(name); });
    EXPECT_NE(message.find(str('"', name, '"')), std::string::npos) << message;
  }
}

TEST(DTypes, TensorsPrintThemselves) {
  EXPECT_EQ(
      str(TensorInfo{"fc.w", DType::kF32, {10, 20}}), "fc.w F32 [10, 20]");
  EXPECT_EQ(str(TensorInfo{"step", DType::kI64, {}}), "step I64 []");
}

TEST(BoxesOfRange, AreThoseElementsInOrder) {
  RandomBoxes random(1);
  for (int i = 0; i < 3000; ++i) {
    const Shape shape = random.shape(4, i % 5 == 0 ? 0 : 1, 5);
    const std::int64_t all = dtensor::numel(shape);
    const std::int64_t from = random.number(0, all);
    const std::int64_t count = random.number(0, all - from);
    const std::vector<Box> boxes = boxes_of_range(shape, from, count);
    EXPECT_LE(boxes.size(), std::max<std::size_t>(2 * shape.size(), 2) - 1);
    std::int64_t next = from;
    for (const Box& box : boxes) {
      ASSERT_TRUE(is_inside(box, shape));
      for (const std::int64_t index : elements(shape, box)) {
        ASSERT_EQ(index, next++);
      }
    }
    ASSERT_EQ(next, from + count);
  }
}

TEST(BoxesOfRange, RefusesMoreThanThereIs) {
  EXPECT_NE(refusal([] { (void)boxes_of_range({2, 3}, 4, 3); }), "");
  EXPECT_NE(refusal([] { (void)boxes_of_range({2, 3}, -1, 2); }), "");
  EXPECT_TRUE(boxes_of_range({0, 3}, 0, 0).empty());
  EXPECT_EQ(boxes_of_range({}, 0, 1), std::vector<Box>{Box{}});
}

TEST(Boxes, InsideOrNot) {
  EXPECT_TRUE(is_inside({{1, 0}, {1, 3}}, {2, 3}));
  EXPECT_TRUE(is_inside({{2, 0}, {0, 3}}, {2, 3}));
  EXPECT_FALSE(is_inside({{1, 1}, {1, 3}}, {2, 3}));
  EXPECT_FALSE(is_inside({{-1, 0}, {1, 3}}, {2, 3}));
  EXPECT_FALSE(is_inside({{1, 0}, {-1, 3}}, {2, 3}));
  EXPECT_FALSE(is_inside({{1}, {1}}, {2, 3}));
  EXPECT_FALSE(is_inside({{INT64_MAX}, {INT64_MAX}}, {5}));
}

TEST(Boxes, SubtractLeavesTheRest) {
  RandomBoxes random(2);
  for (int i = 0; i < 3000; ++i) {
    const Shape shape = random.shape(3, 0, 5);
    const Box box = random.box(shape);
    const Box other = random.box(shape);
    const auto without = elements(shape, other);
    std::vector<std::int64_t> expected;
    for (const std::int64_t index : elements(shape, box)) {
      if (std::ranges::find(without, index) == without.end()) {
        expected.push_back(index);
      }
    }
    std::vector<std::int64_t> found;
    for (const Box& part : subtract(box, other)) {
      EXPECT_GT(part.numel(), 0);
      const auto some = elements(shape, part);
      found.insert(found.end(), some.begin(), some.end());
    }
    std::ranges::sort(found);
    ASSERT_EQ(found, expected) << box << " without " << other;
    ASSERT_EQ(
        intersects(box, other),
        expected.size() < static_cast<std::size_t>(box.numel()));
  }
}

// Times that each element is in one of the boxes.
std::vector<int> times_covered(
    const Shape& shape, const std::vector<Box>& boxes) {
  std::vector<int> times(static_cast<std::size_t>(dtensor::numel(shape)), 0);
  for (const Box& box : boxes) {
    for (const std::int64_t index : elements(shape, box)) {
      ++times[static_cast<std::size_t>(index)];
    }
  }
  return times;
}

TEST(Cover, FindsWhatIsMissingAndWhatOverlaps) {
  RandomBoxes random(3);
  for (int i = 0; i < 2000; ++i) {
    const Shape shape = random.shape(3, 0, 7);
    std::vector<Box> boxes =
        random.partition(shape, static_cast<int>(random.number(0, 40)));
    for (std::int64_t drop = random.number(0, 3); drop > 0; --drop) {
      if (!boxes.empty()) {
        boxes.erase(
            boxes.begin() +
            random.number(0, static_cast<std::int64_t>(boxes.size()) - 1));
      }
    }
    if (i % 3 == 0) {
      boxes.push_back(random.box(shape));
    }
    const std::vector<int> times = times_covered(shape, boxes);
    const bool overlaps =
        std::ranges::any_of(times, [](int n) { return n > 1; });
    const Cover cover = cover_of(shape, boxes);
    ASSERT_EQ(cover.overlaps, overlaps);
    ASSERT_EQ(overlapping(shape, boxes), overlaps);
    const std::vector<int> missing = times_covered(shape, cover.missing);
    for (std::size_t e = 0; e < times.size(); ++e) {
      ASSERT_EQ(missing[e], times[e] == 0 ? 1 : 0);
    }
  }
}

struct ElementMove {
  std::int64_t from;
  std::int64_t to;
  bool operator==(const ElementMove&) const = default;
};

std::vector<ElementMove> expected_moves(
    const Shape& shape,
    const Box& source,
    std::int64_t begin,
    std::int64_t end,
    const Box& target) {
  std::map<std::int64_t, std::int64_t> places;
  for (const std::int64_t index : elements(shape, target)) {
    places.emplace(index, static_cast<std::int64_t>(places.size()));
  }
  // Row-major: ascending indices have ascending places.
  std::vector<ElementMove> moves;
  const auto from = elements(shape, source);
  for (std::int64_t i = begin; i < end; ++i) {
    const auto at = places.find(from[static_cast<std::size_t>(i)]);
    if (at != places.end()) {
      moves.push_back({i, at->second});
    }
  }
  return moves;
}

TEST(Runs, MoveEachCommonElementInTheFewestRuns) {
  RandomBoxes random(4);
  for (int i = 0; i < 5000; ++i) {
    const Shape shape = random.shape(4, i % 7 == 0 ? 0 : 1, 5);
    const Box source = i % 4 == 0 ? dtensor::whole(shape) : random.box(shape);
    const Box target = i % 4 == 1 ? dtensor::whole(shape) : random.box(shape);
    const std::int64_t begin = random.number(0, source.numel());
    const std::int64_t end = random.number(begin, source.numel());
    const auto expected = expected_moves(shape, source, begin, end, target);
    std::vector<ElementMove> moves;
    checkpoint::Run last{-1, -1, 0};
    for_each_run(source, begin, end, target, [&](const checkpoint::Run& run) {
      ASSERT_GT(run.count, 0);
      EXPECT_FALSE(
          run.from == last.from + last.count && run.to == last.to + last.count)
          << "two adjacent runs";
      for (std::int64_t k = 0; k < run.count; ++k) {
        moves.push_back({run.from + k, run.to + k});
      }
      last = run;
    });
    ASSERT_EQ(moves, expected) << source << " to " << target;
    ASSERT_EQ(
        count_common(source, begin, end, target),
        static_cast<std::int64_t>(expected.size()));
  }
}

} // namespace
} // namespace argosy::checkpoint
