#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "argosy/ps/service/bytes.h"
#include "argosy/rpc/message.h"

// What clients and servers say to each other. A region is a part of all tables:
// the shards and dense elements that ShardMap gives to one "server". Each
// request is for one region, and tells several tables' sections at once.
namespace argosy::ps {

// Names of RPC methods.
inline constexpr std::string_view kPullMethod = "ps.pull";
inline constexpr std::string_view kCommandMethod = "ps.command";
inline constexpr std::string_view kQueryMethod = "ps.query";
inline constexpr std::string_view kReplicateMethod = "ps.replicate";
inline constexpr std::string_view kManageMethod = "ps.manage";

inline constexpr std::size_t kMostSections = 65536; // of one message

// How a reply begins.
enum class Status : std::uint8_t {
  Ok,
  NotLeader, // another server leads the region: read the store again
  Gap,       // an earlier command of this client is missing; its last follows
};

enum class SectionKind : std::uint8_t { Sparse, Dense };

// A table's share of a message. Sparse: `count` keys in a part of their own
// and, in a push, a part with `width` floats for each. Dense: `count` floats of
// the region's slice, from its beginning on; in a push in a part of their own.
struct Section {
  SectionKind kind = SectionKind::Sparse;
  std::uint32_t table = 0;
  std::uint64_t count = 0;
  std::uint32_t width = 1;
  std::span<const std::uint64_t> keys{};
  std::span<const float> values{};
};

// Reads rows of a region.
struct RowRequest {
  std::uint32_t region = 0;
  // The number of steps that must have been applied (synchronous); -1: any.
  std::int64_t version = -1;
  bool create = true; // false: unknown keys get no rows (tests)
  std::vector<Section> sections{};
};

rpc::Message encode(const RowRequest& request);

// Both refer to the message's parts. They throw InvalidArgument when lengths do
// not agree.
RowRequest decode_pull(const rpc::Message& message);

// Changes a region. All replicas of it execute the same commands in the same
// order.
enum class CommandKind : std::uint8_t {
  SetJob = 1, // number of workers, mode
  CreateTable,
  Push,
  SetDense,      // replaces values
  ImportRows,    // of saved files
  SetDenseState, // of a saved file: values and the optimizer's state
  Shrink,
  SaveBegin, // the cut of a save whose end changes rows
  SaveEnd,
  Clear,
  SetLearningRate,
  Arrive,  // a worker at a barrier
  GeoTake, // which rows others have changed
  Leave,   // a worker has ended: nobody waits for its gradients
  Skip,    // in the place of a command that was refused
  SetRows, // replaces weights of rows
};

std::string_view to_string(CommandKind kind);

struct Command {
  CommandKind kind = CommandKind::Push;
  std::uint32_t region = 0;
  // Who sends it, and the how manieth of this client it is, from 1 on; 0: it
  // may be executed twice.
  std::uint64_t client = 0;
  std::uint64_t number = 0;
  std::uint32_t worker = 0;
  std::int64_t step = -1; // of a synchronous push
  std::uint32_t table = 0;
  std::string text{}; // what kinds add: a spec, a name, a number
  std::vector<Section> sections{};
  rpc::Message message{}; // keeps alive what `sections` refer to
};

// The message of a command, and back. A section's keys and values become parts
// without a copy: the keepers are `keepers`, one per part, or empty.
rpc::Message encode(
    const Command& command,
    const std::vector<std::shared_ptr<const void>>& keepers = {});
Command decode_command(rpc::Message message);

// A reply: the status, the number of steps that the region has applied, fields
// that depend on the request, and parts.
struct Reply {
  Status status = Status::Ok;
  std::int64_t version = 0;
  std::string text{};
  std::vector<rpc::Bytes> parts{};
};

rpc::Message encode(Reply reply);
Reply decode_reply(rpc::Message message);

} // namespace argosy::ps
