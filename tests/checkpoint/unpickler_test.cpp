#include "argosy/checkpoint/import/unpickler.h"

#include <gmock/gmock.h>

#include <string>

#include "argosy/checkpoint/import/pickle_value.h"
#include "argosy/common/error.h"
#include "tests/support/refusal.h"

namespace argosy::checkpoint {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

using namespace std::string_literals;

Pickle read(const std::string& bytes) {
  return unpickle(source_of_bytes(bytes, "x.pkl"));
}

std::string refused(const std::string& bytes) {
  return argosy::testing::refusal<CheckpointError>([&] { read(bytes); });
}

nlohmann::json json(const std::string& bytes) {
  return to_json(*read(bytes).root);
}

TEST(Unpickler, ReadsConstantsOfAllProtocols) {
  EXPECT_EQ(json("\x80\x02N."s), nullptr);
  EXPECT_EQ(json("\x80\x02\x88."s), true);
  EXPECT_EQ(json("I01\n."s), true);
  EXPECT_EQ(json("I-12\n."s), -12);
  EXPECT_EQ(json("L12L\n."s), 12);
  EXPECT_EQ(json("\x80\x02K\xff."s), 255);
  EXPECT_EQ(json("\x80\x02M\x01\x02."s), 513);
  EXPECT_EQ(json("\x80\x02J\xff\xff\xff\xff."s), -1);
  EXPECT_EQ(json("\x80\x02\x8a\x02\x00\xff."s), -256);
  EXPECT_EQ(json("\x80\x02\x8a\x00."s), 0);
  EXPECT_EQ(json("\x80\x02G\x3f\xf8\0\0\0\0\0\0."s), 1.5);
  EXPECT_EQ(json("\x80\x02X\x02\0\0\0hi."s), "hi");
  EXPECT_EQ(json("\x80\x04\x95\x04\0\0\0\0\0\0\0\x8c\x02hi."s), "hi");
  EXPECT_EQ(json("\x80\x05\x8d\x02\0\0\0\0\0\0\0hi."s), "hi");
}

TEST(Unpickler, ReadsContainersAndTheMemo) {
  EXPECT_EQ(json("\x80\x02](K\x01K\x02\x65."s), nlohmann::json({1, 2}));
  EXPECT_EQ(json("\x80\x02]K\x01\x61."s), nlohmann::json::array({1}));
  EXPECT_EQ(json("\x80\x02K\x01K\x02\x86."s), nlohmann::json({1, 2}));
  EXPECT_EQ(
      json("\x80\x02}X\x01\0\0\0aq\x01K\x01s."s), nlohmann::json({{"a", 1}}));
  EXPECT_EQ(
      json("\x80\x04}\x94(\x8c\x01\x61\x94h\x01\x8c\x01\x62K\x02u."s),
      nlohmann::json({{"a", "a"}, {"b", 2}}));
  EXPECT_EQ(json("\x80\x04\x8f\x94(K\x01K\x02\x90."s), nlohmann::json({1, 2}));
  // An OrderedDict with the attribute that state_dicts have.
  EXPECT_EQ(
      json("\x80\x02"
           "ccollections\nOrderedDict\n)RX\x01\0\0\0aK\x01s"
           "}X\x09\0\0\0_metadataNsb."s),
      nlohmann::json({{"a", 1}}));
}

TEST(Unpickler, RefusesCodeAndNamesItAndItsPlace) {
  const std::string message = refused(
      "\x80\x02"
      "cos\nsystem\nX\x04\0\0\0true\x85R."s);
  EXPECT_THAT(
      message,
      AllOf(
          HasSubstr("x.pkl, byte 2"),
          HasSubstr("os.system"),
          HasSubstr("not run")));
  EXPECT_THAT(
      refused("\x80\x04\x8c\x08"
              "builtins\x8c\x04"
              "eval\x93."s),
      AllOf(HasSubstr("byte 18"), HasSubstr("builtins.eval")));
  // A module that only begins like one of the list.
  EXPECT_THAT(
      refused("\x80\x02"
              "ctorch._utils\n_rebuild_tensor_v22\n."s),
      HasSubstr("_rebuild_tensor_v22"));
  // Known by name, but not as a function.
  EXPECT_THAT(
      refused("\x80\x02"
              "ctorch\nFloatStorage\n)R."s),
      HasSubstr("not a function"));
}

TEST(Unpickler, RefusesWhatNeedsOtherOpcodes) {
  EXPECT_THAT(refused("\x80\x02(ios\nsystem\n."s), HasSubstr("opcode 105"));
  EXPECT_THAT(refused("\x80\x02\x82\x01."s), HasSubstr("opcode 130")); // EXT1
  EXPECT_THAT(refused("\x80\x05\x97."s), HasSubstr("opcode 151"));
  EXPECT_THAT(refused("\x80\x06."s), HasSubstr("protocol 6"));
}

TEST(Unpickler, RefusesDamage) {
  EXPECT_THAT(refused(""), HasSubstr("truncated"));
  EXPECT_THAT(refused("\x80\x02."s), HasSubstr("stack is empty"));
  EXPECT_THAT(refused("\x80\x02t."s), HasSubstr("no mark"));
  EXPECT_THAT(refused("\x80\x02h\x07."s), HasSubstr("value 7"));
  EXPECT_THAT(
      refused("\x80\x02X\x04\0\0\0\xff\xff\xff\xff."s), HasSubstr("UTF-8"));
  EXPECT_THAT(refused("\x80\x02K\x01K\x02s."s), HasSubstr("stack is empty"));
  EXPECT_THAT(
      refused("\x80\x02K\x01K\x02K\x03s."s), HasSubstr("expected dict"));
}

TEST(Unpickler, ChecksLengthsBeforeItAllocates) {
  EXPECT_THAT(
      refused("\x80\x05\x8e\xff\xff\xff\xff\xff\xff\xff\x7f."s),
      HasSubstr("are left"));
  EXPECT_THAT(refused("\x80\x02X\xff\xff\xff\x7f."s), HasSubstr("are left"));
}

TEST(Unpickler, ChecksViewsAgainstTheirStorage) {
  const std::string storage =
      "ctorch._utils\n_rebuild_tensor_v2\n((X\x07\0\0\0storage"
      "ctorch\nFloatStorage\nX\x01\0\0\0"
      "0X\x03\0\0\0cpuK\x06tQ"s;
  const std::string end =
      "\x89"
      "ccollections\nOrderedDict\n)RtR."s;
  const auto tensor = [&](const std::string& view) {
    return "\x80\x02" + storage + view + end;
  };
  const Pickle good = read(tensor("K\x00K\x02K\x03\x86K\x03K\x01\x86"s));
  ASSERT_TRUE(good.root->is(PickleKind::kTensor));
  EXPECT_EQ(good.root->tensor->shape, Shape({2, 3}));
  EXPECT_EQ(good.root->tensor->storage, "0");
  EXPECT_THAT(
      refused(tensor("K\x01K\x02K\x03\x86K\x03K\x01\x86"s)),
      HasSubstr("within the 6 elements"));
  EXPECT_THAT(
      refused(tensor("K\x00K\x02K\x03\x86K\x04K\x01\x86"s)),
      HasSubstr("within the 6 elements"));
  // 2^62 rows that all are one: more than can be counted.
  EXPECT_THAT(
      refused(
          tensor("K\x00\x8a\x08\0\0\0\0\0\0\0\x40K\x04\x86K\x00K\x00\x86"s)),
      HasSubstr("within the 6 elements"));
  EXPECT_THAT(
      refused(tensor("K\x00K\x02\x85K\x03K\x01\x86"s)),
      HasSubstr("as many strides as sizes"));
}

TEST(Unpickler, EndsAtValuesThatContainThemselves) {
  // a = []; a.append(a)
  const Pickle pickle = read("\x80\x02]q\x00h\x00\x61."s);
  EXPECT_THROW(to_json(*pickle.root), CheckpointError);
  // d = {}; d[d] = None: no recursion into keys.
  EXPECT_EQ(
      json("\x80\x02}q\x00h\x00Ns."s), nlohmann::json({{"dict 0", nullptr}}));
}

TEST(Unpickler, LimitsTextsThatAreReferredToManyTimes) {
  std::string bytes = "\x80\x02](X\x00\x00\x10\x00"s; // 1 MiB
  bytes.append(1 << 20, 'x');
  bytes += "q\x00"s;
  for (int i = 0; i < 10'000; ++i) {
    bytes += "h\x00"s;
  }
  const Pickle pickle = read(bytes + "\x65.");
  EXPECT_THROW(to_json(*pickle.root), CheckpointError);
}

TEST(Unpickler, LimitsWhatSmallPicklesMake) {
  // Doubles a list with each 4 bytes: tuple(list) copies, the list keeps both.
  std::string bytes = "\x80\x02](K\x01K\x01K\x01K\x01\x65q\x00"s;
  for (int i = 0; i < 60; ++i) {
    bytes += "cbuiltins\nlist\nh\x00\x85R"s; // a copy of what it has
    bytes += "q\x01(h\x01h\x01\x65q\x00"s;
  }
  bytes += ".";
  EXPECT_NO_THROW(read(bytes)); // grows by two a round
  std::string many = "\x80\x02]("s;
  many.append(1'000'000, 'N');
  many += "\x65q\x00"s;
  for (int i = 0; i < 20; ++i) {
    many += "cbuiltins\nlist\nh\x00\x85R0"s;
  }
  many += ".";
  EXPECT_THAT(refused(many), HasSubstr("values"));
}

} // namespace
} // namespace argosy::checkpoint
