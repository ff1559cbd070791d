#include "tests/comm/group_simulation.h"

#include <algorithm>

#include "argosy/comm/message/message_backend.h"
#include "argosy/common/error.h"
#include "argosy/common/text.h"

namespace argosy::testing {

using comm::Backend;
using std::chrono::milliseconds;

namespace {

// How long a rank may take to agree on an error, after its deadline or after a
// transfer broke: it waits for a word, calls the roll or waits for its end, and
// asks the store, all with limits.
constexpr milliseconds kAgreement{5'000};
constexpr comm::Reduction kSum{comm::DType::Float32, comm::ReduceOp::SUM};

// As C10dFailureStore, over a simulated store.
class KvFailureStore final : public comm::message::FailureStore {
 public:
  KvFailureStore(std::shared_ptr<store::Kv> kv, bool& lost)
      : kv_(std::move(kv)), lost_(lost) {}

  void set(const std::string& key, const std::string& text) override {
    kv_->set(key, text, limit());
  }
  std::optional<std::string> get(const std::string& key) override {
    return kv_->get(key, limit());
  }
  std::string claim(const std::string& key, const std::string& text) override {
    lost_ = lost_ || key == "verdict";
    const auto held = kv_->compare_set(key, std::nullopt, text, limit()).value;
    lost_ = lost_ && key != "verdict";
    return held.value_or(text);
  }

 private:
  static Deadline limit() { return Deadline::after(milliseconds(2'000)); }

  const std::shared_ptr<store::Kv> kv_;
  bool& lost_; // whether the last claim of a verdict failed
};

// The ranks that a message names: "rank 1, 3-5 of group ...".
std::vector<int> named_ranks(const std::string& message) {
  std::vector<int> named;
  const auto begin = message.find("rank ");
  int last = -1;
  bool is_range = false;
  for (std::size_t i = begin + 5;
       begin != std::string::npos && i < message.size() &&
       std::string("0123456789-, ").find(message[i]) != std::string::npos;
       ++i) {
    if (message[i] == '-') {
      is_range = true;
    } else if (std::isdigit(static_cast<unsigned char>(message[i])) != 0) {
      const int number = message[i] - '0'; // groups are small
      for (int rank = is_range ? last + 1 : number; rank <= number; ++rank) {
        named.push_back(rank);
      }
      last = number;
      is_range = false;
    }
  }
  return named;
}

} // namespace

GroupSimulation::GroupSimulation(std::uint64_t seed)
    : store_(simulation_, StoreKind::Etcd), simulation_(seed) {
  choose();
}

void GroupSimulation::choose() {
  Random& random = simulation_.random();
  ranks_.resize(random.between(2, 5));
  num_ops_ = random.between(1, 6);
  limit_ = milliseconds(random.between(300, 1'000));
  const int num_faults = random.between(0, 2);
  for (int i = 0; i < num_faults; ++i) {
    ranks_[random.below(static_cast<int>(ranks_.size()))].fault = Fault{
        .act = static_cast<Act>(random.below(6)),
        .op = random.below(num_ops_),
        .delay = milliseconds(random.between(0, 30))};
  }
  if (random.chance(0.3)) {
    store_is_sound_ = false;
    faults_.lost = 0.1;
    faults_.slow = 0.1;
  }
}

bool GroupSimulation::is_healthy(int rank) const {
  return !ranks_[rank].fault.has_value();
}

void GroupSimulation::run() {
  store_.set_faults(faults_);
  std::vector<int> nodes;
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    ranks_[rank].node = simulation_.add_node(str("rank ", rank));
    nodes.push_back(ranks_[rank].node);
  }
  wire_ = std::make_unique<SimulatedWire>(simulation_, nodes);
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    const int rank = static_cast<int>(i);
    simulation_.spawn(ranks_[i].node, [this, rank] { live(rank); });
  }
  simulation_.run(milliseconds(120'000), [] {});
  check_all();
}

void GroupSimulation::live(int rank) {
  Rank& own = ranks_[rank];
  const auto backend = comm::message::make_message_backend(
      "g",
      wire_->messenger(rank),
      std::make_shared<KvFailureStore>(
          store_.client(own.node), own.lost_store));
  try {
    for (int op = 0; op < num_ops_; ++op) {
      sleep_for(simulation_.random().between(
          std::chrono::microseconds(0), std::chrono::microseconds(40'000)));
      if (own.fault && own.fault->op == op) {
        act(rank, *own.fault, *backend);
      }
      run_op(rank, op, *backend);
      ++own.num_completed;
    }
  } catch (const Crashed&) {
    throw;
  } catch (const Error& error) {
    if (simulation_.has_crashed(own.node)) {
      throw Crashed();
    }
    own.error = error.what();
    simulation_.note("fails: ", own.error);
    check_end(rank);
  }
  own.ended = true;
  // As a process that ends does. Those that are behind need its messages, which
  // precede the end.
  wire_->close(rank);
}

// What a rank does that has a fault, before it enters the operation.
void GroupSimulation::act(int rank, const Fault& fault, Backend& backend) {
  const int node = ranks_[rank].node;
  switch (fault.act) {
    case Act::Crash:
      simulation_.after(fault.delay, [this, node, rank] {
        simulation_.crash(node);
        wire_->close(rank);
      });
      return;
    case Act::PowerOff: // nobody closes its connections
      simulation_.after(fault.delay, [this, node] { simulation_.crash(node); });
      return;
    case Act::Pause:
      simulation_.after(fault.delay, [this, node] {
        simulation_.pause(
            node, milliseconds(simulation_.random().between(50, 6'000)));
      });
      return;
    case Act::Absence:
      simulation_.note("rank ", rank, " stays away for a while");
      sleep_for(milliseconds(simulation_.random().between(50, 6'000)));
      return;
    case Act::Abort:
      backend.abort("enough");
      return;
    case Act::Disagreement:
      return; // run_op() calls another operation
  }
}

void GroupSimulation::run_op(int rank, int op, Backend& backend) {
  const Rank& own = ranks_[rank];
  const bool disagrees =
      own.fault && own.fault->op == op && own.fault->act == Act::Disagreement;
  const int size = static_cast<int>(ranks_.size());
  std::vector<float> data(
      disagrees ? 4 + rank : 3, static_cast<float>(rank + op));
  const auto began = simulation_.clock();
  simulation_.note("rank ", rank, " enters operation ", op);
  try {
    backend.all_reduce(
        data.data(), data.data(), data.size(), kSum, Deadline::after(limit_));
  } catch (const Crashed&) {
    throw;
  } catch (const Error&) {
    // A rank that was stopped, or whose store is slow, may take longer.
    require(
        simulation_.clock() - began <= limit_ + kAgreement ||
            !is_healthy(rank) || !store_is_sound_,
        "rank ",
        rank,
        " took ",
        duration_text(simulation_.clock() - began),
        " to fail");
    throw;
  }
  const float sum = static_cast<float>(size * (size - 1) / 2 + size * op);
  require(
      !disagrees && data[0] == sum,
      "operation ",
      op,
      " of rank ",
      rank,
      " gives ",
      data[0],
      ", expected ",
      sum);
}

// Right after a rank has failed.
void GroupSimulation::check_end(int rank) {
  const Rank& own = ranks_[rank];
  if (store_is_sound_) {
    // Who was stopped may find that its call's time is over.
    require(
        !own.lost_store || !is_healthy(rank),
        "rank ",
        rank,
        " did not reach the store");
    check_blame(own.error);
  }
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    const Rank& other = ranks_[i];
    // One error for all whose word has reached the store.
    require(
        other.error.empty() || other.lost_store || own.lost_store ||
            other.error == own.error,
        "rank ",
        rank,
        " fails with \"",
        own.error,
        "\", rank ",
        i,
        " with \"",
        other.error,
        "\"");
  }
}

void GroupSimulation::check_blame(const std::string& error) {
  if (error.find("all ranks of group g came") != std::string::npos) {
    return; // one was stopped for a while, and came back
  }
  const std::vector<int> named = named_ranks(error);
  require(!named.empty(), "nobody is named in \"", error, "\"");
  const auto healthy = [&](int rank) { return is_healthy(rank); };
  bool is_right = std::ranges::none_of(named, healthy);
  if (error.find(" calls ") != std::string::npos) {
    is_right = std::ranges::any_of(ranks_, [](const Rank& rank) {
      return rank.fault && rank.fault->act == Act::Disagreement;
    });
  } else if (error.find("or ended it just then") != std::string::npos) {
    is_right = !std::ranges::all_of(named, healthy); // one came last
  }
  require(is_right, "an innocent rank is blamed: \"", error, "\"");
}

void GroupSimulation::check_all() {
  bool has_faults = false;
  int first_failed = num_ops_; // the operation
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    const Rank& rank = ranks_[i];
    has_faults = has_faults || rank.fault;
    if (simulation_.has_crashed(rank.node)) {
      continue;
    }
    require(rank.ended, "rank ", i, " has not ended");
    first_failed = std::min(first_failed, rank.num_completed);
  }
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    // No failure is lost: nobody goes on after an operation that another rank
    // did not complete.
    require(
        ranks_[i].num_completed <= first_failed + 1,
        "rank ",
        i,
        " completed ",
        ranks_[i].num_completed,
        " operations, another ",
        first_failed);
    require(
        has_faults || ranks_[i].num_completed == num_ops_,
        "rank ",
        i,
        " failed without any fault: ",
        ranks_[i].error);
  }
}

} // namespace argosy::testing
