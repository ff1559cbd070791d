// Objects by their codecs, and their collectives.

#include "argosy/comm/objects.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>
#include <nlohmann/json.hpp>

#include "argosy/common/error.h"
#include "argosy/testing/ranks.h"
#include "argosy/world/world.h"

namespace {

struct Point {
  double x;
  double y;
  bool operator==(const Point&) const = default;
};

} // namespace

template <>
struct argosy::comm::Codec<Point> {
  static void encode(const Point& point, std::string& bytes) {
    encode_to(bytes, point.x, point.y);
  }
  static Point decode(ByteReader& reader) {
    const auto x = reader.read<double>();
    return {x, reader.read<double>()};
  }
};

namespace argosy {
namespace {

template <typename T>
T round_trip(const T& value) {
  return comm::decode<T>(comm::encode(value));
}

TEST(Codec, KeepsValuesOfManyTypes) {
  EXPECT_EQ(round_trip(42), 42);
  EXPECT_EQ(round_trip(std::string("a\0b", 3)), std::string("a\0b", 3));
  EXPECT_EQ(round_trip(std::string()), "");
  const std::map<std::string, std::vector<double>> nested = {
      {"a", {1.5, -2}}, {"", {}}};
  EXPECT_EQ(round_trip(nested), nested);
  const std::vector<bool> flags = {true, false, true};
  EXPECT_EQ(round_trip(flags), flags);
  EXPECT_EQ(round_trip(std::optional<int>()), std::nullopt);
  EXPECT_EQ(round_trip(std::optional<int>(3)), 3);
  const nlohmann::json json = {{"lr", 0.1}, {"steps", {1, 2, nullptr}}};
  EXPECT_EQ(round_trip(json), json);
  EXPECT_EQ(round_trip(Point{1, -2}), (Point{1, -2}));
}

TEST(Codec, KeepsTensors) {
  for (const auto type : {torch::kFloat, torch::kBFloat16, torch::kBool}) {
    const at::Tensor tensor =
        torch::arange(12).remainder(2).reshape({3, 4}).to(type).t();
    const at::Tensor copy = round_trip(tensor);
    EXPECT_EQ(copy.scalar_type(), type);
    EXPECT_TRUE(torch::equal(copy, tensor));
  }
  EXPECT_EQ(round_trip(torch::tensor(3.0)).dim(), 0);
  EXPECT_EQ(round_trip(torch::empty({0, 5})).size(1), 5);
  EXPECT_FALSE(round_trip(at::Tensor()).defined());
}

TEST(Codec, KeepsIValues) {
  c10::Dict<std::string, at::Tensor> dict;
  dict.insert("w", torch::ones({2}));
  const c10::IValue copy = round_trip(c10::IValue(dict));
  EXPECT_TRUE(
      torch::equal(copy.toGenericDict().at("w").toTensor(), torch::ones({2})));
  EXPECT_EQ(round_trip(c10::IValue(7)).toInt(), 7);
}

TEST(Codec, RefusesBytesOfAnotherType) {
  EXPECT_THROW(comm::decode<int>("abc"), InvalidArgument) << "too few";
  EXPECT_THROW(comm::decode<int>("abcdefgh"), InvalidArgument) << "too many";
  EXPECT_THROW(
      comm::decode<std::string>(comm::encode(std::uint64_t{1} << 60)),
      InvalidArgument);
  EXPECT_THROW(
      comm::decode<nlohmann::json>(comm::encode(std::string("\xff\xff"))),
      InvalidArgument);
}

class Objects : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Sizes, Objects, ::testing::Values(1, 2, 3, 7));

TEST_P(Objects, AllGatherOfDifferentSizes) {
  argosy::testing::run_ranks(GetParam(), [](World& world) {
    std::vector<std::string> all = {"left over"};
    all_gather_object(
        all, std::string(static_cast<std::size_t>(world.rank()) * 1000, 'x'));
    ASSERT_EQ(static_cast<int>(all.size()), world.size());
    for (int rank = 0; rank < world.size(); ++rank) {
      EXPECT_EQ(all[static_cast<std::size_t>(rank)].size(), rank * 1000u);
    }
  });
}

TEST_P(Objects, BroadcastReplacesTheLists) {
  argosy::testing::run_ranks(GetParam(), [](World& world) {
    const int src = world.size() - 1;
    std::vector<nlohmann::json> list(3);
    if (world.rank() == src) {
      list = {nlohmann::json{{"rank", src}}, "", {1, 2, 3}};
    }
    broadcast_object_list(list, src);
    EXPECT_EQ(list[0].at("rank"), src);
    EXPECT_EQ(list[1], "");
    EXPECT_EQ(list[2].size(), 3u);
  });
}

TEST_P(Objects, ScatterGivesEachRankItsOwn) {
  argosy::testing::run_ranks(GetParam(), [](World& world) {
    const int src = world.size() / 2;
    std::vector<at::Tensor> given;
    if (world.rank() == src) {
      for (int rank = 0; rank < world.size(); ++rank) {
        given.push_back(torch::full({rank}, rank));
      }
    }
    std::vector<at::Tensor> own(5);
    scatter_object_list(own, given, src);
    ASSERT_EQ(own.size(), 1u);
    EXPECT_TRUE(
        torch::equal(own[0], torch::full({world.rank()}, world.rank())));
  });
}

TEST(Objects, InASubgroupRootsAreGlobal) {
  argosy::testing::run_ranks(3, [](World& world) {
    const auto group = new_group({1, 2});
    if (!group->is_member()) {
      return;
    }
    std::vector<Point> own;
    scatter_object_list(
        own,
        world.rank() == 2 ? std::vector<Point>{{1, 1}, {2, 2}}
                          : std::vector<Point>{},
        2,
        group);
    const double expected = world.rank();
    EXPECT_EQ(own.at(0), (Point{expected, expected}));
  });
}

} // namespace
} // namespace argosy
