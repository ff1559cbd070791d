// MindSpore's rank table in its three formats.

#include "argosy/common/file.h"
#include "argosy/common/text.h"
#include "tests/world/adopting.h"

namespace argosy::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kV1[] = R"({
  "version": "1.0", "server_count": "2", "status": "completed",
  "server_list": [
    {"server_id": "10.0.0.1", "host_nic_ip": "reserve", "device": [
      {"device_id": "0", "device_ip": "192.1.0.1", "rank_id": "0"},
      {"device_id": "1", "device_ip": "192.1.0.2", "rank_id": "1"}]},
    {"server_id": "10.0.0.2", "host_nic_ip": "reserve", "device": [
      {"device_id": "0", "device_ip": "192.1.0.3", "rank_id": "2"}]}]})";

constexpr char kCross[] = R"({
  "version": "1.0", "server_count": "2", "status": "completed",
  "server_list": [
    {"server_id": "z", "server_ip": "10.0.0.7", "device": [
      {"device_id": "0", "device_ip": "1.1.1.1", "dpu_ip": "2.2.2.2",
       "numa_id": "0", "rank_id": "0"}]},
    {"server_id": "a", "server_ip": "10.0.0.8", "device": [
      {"device_id": "0", "device_ip": "1.1.1.2", "rank_id": "1"}]}],
  "cluster_list": [
    {"cluster_id": "c", "network_type": "ROCE", "az_id": "0",
     "region_id": "0", "server_list": [{"server_id": "z"},
                                       {"server_id": "a"}]}]})";

constexpr char kV0[] = R"({
  "board_id": "0x0020", "chip_info": "910", "deploy_mode": "lab",
  "group_count": "1", "status": "completed", "para_plane_nic_num": "2",
  "group_list": [{"device_num": "2", "server_num": "1", "group_name": "",
    "instance_count": "2", "instance_list": [
      {"devices": [{"device_id": "4", "device_ip": "1.1.1.1"}],
       "rank_id": "0", "server_id": "10.0.0.1"},
      {"devices": [{"device_id": "5", "device_ip": "1.1.1.2"}],
       "rank_id": "1", "server_id": "10.0.0.1"}]}]})";

std::string replaced(
    std::string text, const std::string& what, const std::string& by) {
  const std::size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return text.replace(at, what.size(), by);
}

class RankTableFile : public ::testing::Test {
 protected:
  Variables table(const std::string& text, const Variables& more) {
    write_file(path(), text);
    return with({{"RANK_TABLE_FILE", path()}}, more);
  }

  std::string path() const { return dir_.path() / "ranks.json"; }

  // What is wrong with the table after one change.
  std::string refusal_of(
      const char* text, const std::string& what, const std::string& by) {
    return refusal(table(replaced(text, what, by), {{"RANK_ID", "0"}}));
  }

 private:
  TempDir dir_;
};

TEST_F(RankTableFile, ReadsFormatOne) {
  const LaunchInfo info = adopted(table(kV1, {{"RANK_ID", "2"}}));
  EXPECT_EQ(info.source, "rank-table");
  EXPECT_EQ(info.rank, 2);
  EXPECT_EQ(info.size, 3);
  EXPECT_EQ(info.local_rank, 0);
  EXPECT_EQ(info.local_size, 1);
  EXPECT_EQ(info.node_rank, 1);
  EXPECT_EQ(info.num_nodes, 2);
  EXPECT_EQ(info.store_url, "tcp://10.0.0.1:8118");
  const Variables other = table(kV1, {{"RANK_ID", "0"}, {"MASTER_PORT", "99"}});
  EXPECT_EQ(adopted(other).store_url, "tcp://10.0.0.1:99");
}

TEST_F(RankTableFile, ReadsTheCrossClusterFormat) {
  const Variables env = table(kCross, {{"RANK_ID", "1"}});
  EXPECT_EQ(adopted(env).store_url, "tcp://10.0.0.7:8118");
  // Server ids are free text there, so their order means nothing.
  EXPECT_THAT(examine(Environment(env)).notes, IsEmpty());
  EXPECT_THAT(
      refusal_of(kCross, R"([{"server_id": "z"})", R"([{"server_id": "q"})"),
      HasSubstr("/cluster_list/0/server_list/0/server_id is \"q\""));
}

TEST_F(RankTableFile, ReadsTheFormatWithGroups) {
  const LaunchInfo info = adopted(table(kV0, {{"RANK_ID", "1"}}));
  EXPECT_EQ(info.size, 2);
  EXPECT_EQ(info.local_rank, 1);
  EXPECT_THAT(
      refusal_of(kV0, R"("device_num": "2")", R"("device_num": "3")"),
      HasSubstr("/group_list/0/device_num is \"3\", expected 2"));
  EXPECT_THAT(
      refusal_of(kV0, R"("group_count": "1")", R"("group_count": "2")"),
      HasSubstr("/group_count"));
}

TEST_F(RankTableFile, FindsTheRankByDevice) {
  EXPECT_EQ(adopted(table(kV0, {{"DEVICE_ID", "5"}})).rank, 1);
  EXPECT_THAT(
      refusal(table(kV1, {{"DEVICE_ID", "0"}})),
      AllOf(HasSubstr("DEVICE_ID=0 matches 2"), HasSubstr("RANK_ID")));
  EXPECT_EQ(
      adopted(table(kV1, {{"DEVICE_ID", "0"}, {"SERVER_ID", "10.0.0.2"}})).rank,
      2);
  EXPECT_THAT(refusal(table(kV1, {})), HasSubstr("RANK_ID or DEVICE_ID"));
}

TEST_F(RankTableFile, NotesServersOutOfOrder) {
  const std::string text = replaced(kV1, "10.0.0.1", "10.0.0.3");
  const Adoption adoption = adopt(Environment(table(text, {{"RANK_ID", "0"}})));
  ASSERT_EQ(adoption.notes.size(), 1u);
  EXPECT_THAT(
      adoption.notes[0], HasSubstr("server_id 10.0.0.2 after 10.0.0.3"));
}

TEST_F(RankTableFile, NamesTheEntryThatIsWrong) {
  EXPECT_THAT(
      refusal_of(kV1, "completed", "initializing"),
      AllOf(HasSubstr(path()), HasSubstr("/status is \"initializing\"")));
  EXPECT_THAT(
      refusal_of(kV1, R"("server_count": "2")", R"("server_count": "3")"),
      HasSubstr("/server_count is \"3\", expected 2"));
  EXPECT_THAT(
      refusal_of(kV1, R"("rank_id": "1")", R"("rank_id": "0")"),
      HasSubstr("rank_id 0 is there twice"));
  EXPECT_THAT(
      refusal_of(kV1, R"("rank_id": "2")", R"("rank_id": "7")"),
      HasSubstr("rank_id 2 is missing"));
  EXPECT_THAT(
      refusal_of(kV1, R"("rank_id": "2")", R"("rank_id": "two")"),
      HasSubstr("/server_list/1/device/0/rank_id is \"two\", expected an int"));
  EXPECT_THAT(
      refusal_of(kV1, R"("rank_id": "1")", R"("rank": "1")"),
      HasSubstr("/server_list/0/device/1/rank_id is missing"));
  EXPECT_THAT(
      refusal_of(kV1, "10.0.0.2", "10.0.0.1"),
      HasSubstr("/server_list/1/server_id is \"10.0.0.1\""));
  EXPECT_THAT(
      refusal_of(kV1, R"("status")", R"("version": "1.0", "status")"),
      HasSubstr("\"version\" is there twice"));
  EXPECT_THAT(refusal_of(kV1, "{", ""), HasSubstr("not JSON"));
}

TEST_F(RankTableFile, ChecksTheVariablesAgainstTheTable) {
  EXPECT_THAT(
      refusal(table(kV1, {{"RANK_ID", "3"}})),
      HasSubstr("RANK_ID=3 is not below the 3 ranks of RANK_TABLE_FILE="));
  EXPECT_THAT(
      refusal(table(kV1, {{"RANK_ID", "0"}, {"RANK_SIZE", "8"}})),
      HasSubstr("RANK_SIZE=8 but"));
  EXPECT_THAT(
      refusal({{"RANK_TABLE_FILE", "/no/such"}, {"RANK_ID", "0"}}),
      HasSubstr("RANK_TABLE_FILE=/no/such: no such file"));
}

} // namespace
} // namespace argosy::testing
