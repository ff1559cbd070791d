#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "argosy/ps/service/cut_job.h"
#include "argosy/ps/service/directory.h"
#include "argosy/ps/service/follower_stream.h"
#include "argosy/ps/service/lineup.h"
#include "argosy/ps/service/region_log.h"
#include "argosy/ps/service/region_state.h"
#include "argosy/rpc/endpoint.h"

namespace argosy::ps {

struct RegionOptions {
  int region = 0;
  int num_regions = 1;
  Member self{}; // this run of this server
  LogOptions log{};
  std::string load_folder{}; // what new tables begin with; empty: nothing
};

struct LoadJob;  // region_jobs.cpp
struct CopyLink; // region_replication.cpp

// One region on one server: leads it, follows the leader, or waits for a role.
//
// A thread of its own executes everything, so there are no locks on tables. A
// command is acknowledged when it is in the log, executed, and the backup has
// it, too. Pulls read what has been executed.
class Region {
 public:
  Region(RegionOptions options, rpc::Endpoint& endpoint, Directory& directory);
  // Ends the thread; calls that wait get errors.
  ~Region();

  // Handlers of RPC methods; any thread.
  void pull(rpc::IncomingCall call);
  void command(rpc::IncomingCall call);
  void query(rpc::IncomingCall call);
  void replicate(rpc::IncomingCall call);
  // Copy the region to another server that asks for it.
  void join(rpc::IncomingCall call, const Member& follower);
  // Lead in the place of the leader of `epoch`, which is lost.
  void take_over(rpc::IncomingCall call, std::uint64_t epoch);

  // What the store says; any thread. Becomes the leader if the lineup says so,
  // and no longer leads if another one does.
  void confirm(const Lineup& lineup);

  // What this server's disk had when it started.
  std::optional<LogPosition> log_position() const { return log_position_; }
  bool can_recover_as(std::uint64_t incarnation) const;
  // The log stays valid for the next run of this server.
  void prepare_recovery(const Lineup& recorded);

  // This server is about to end: calls to the backup that fail from now on say
  // nothing about the backup, which has to take over.
  void leave() { leaving_.store(true); }

 private:
  enum class Role { Idle, Leader, Follower };
  using Call = std::shared_ptr<rpc::IncomingCall>;
  using Clock = std::chrono::steady_clock;

  // A call that waits for a version or a barrier.
  struct Parked {
    Call call;
    std::function<bool()> try_answer; // whether it has been answered
    std::function<std::string()> missing;
  };

  // An acknowledgement that waits for the follower.
  struct Unconfirmed {
    std::uint64_t index = 0; // of the message to the follower
    Call call{};
    rpc::Message reply{};
  };

  // The server that this leader copies commands to.
  struct Follower {
    Member member;
    std::uint64_t session = 0;
    bool in_sync = false; // a backup, which may lead
    bool offered = false; // the store may know it as the backup
    bool copied = false;  // all of the state was sent
    std::string lost{};   // why it is to be dropped
    std::uint64_t next_index = 0;
    std::set<std::uint64_t> outstanding{}; // indices without an answer
  };

  // A command that came while the state was loading.
  struct HeldBack {
    std::uint64_t number = 0;
    rpc::Message command{};
    Call call{};
  };

  void loop();
  void post(std::function<void()> task);
  std::deque<std::function<void()>> next_tasks();
  void run_guarded(const std::function<void()>& task);
  static void answer(const Call& call, Reply reply);
  void guarded(const Call& call, const std::function<void()>& body);

  // region.cpp: calls of clients.
  bool refuse_unless_leader(const Call& call);
  void on_pull(const Call& call);
  void on_command(const Call& call);
  void judge(const Call& call, Command command);
  void on_query(const Call& call);
  void skip(const Command& refused);
  void park(Parked parked);
  void check_parked();
  void execute(Command command, const Call& call);
  void acknowledge(const Call& call, Reply reply);

  // region_roles.cpp: who leads.
  void become_leader(const Lineup& lineup);
  void step_down(const Lineup& current);
  void drop_jobs(const std::string& why);
  void on_take_over(const Call& call, std::uint64_t epoch);
  void on_confirm(const Lineup& lineup);

  // region_replication.cpp: leader and follower.
  void on_join(const Call& call, const Member& member);
  CopyLink copy_link(const Member& member, std::uint64_t session);
  void send_to_follower(
      StreamKind kind, std::uint32_t table, rpc::Message message);
  void on_follower_answer(
      std::uint64_t session, std::uint64_t index, const std::string& error);
  bool change_lineup(const std::function<Lineup(const Lineup&)>& change);
  void drop_follower(const std::string& why);
  void admit_follower();
  void confirm_acknowledged();
  void on_replicate(const Call& call);
  void take_stream_message(StreamMessage message, const Call& call);
  void begin_loading(const StreamMessage& message);
  void finish_loading();
  void hold_back(StreamMessage message, const Call& call);
  void follow_command(rpc::Message message, std::uint64_t number);

  // region_jobs.cpp: cuts of the state that are read beside traffic.
  void start_next_job();
  void step_job();
  void end_job(const std::string& error);
  void begin_save(const Call& call, ByteReader& in);
  void start_save(const Call& call, const SaveRequest& request);
  void begin_load(const Call& call, ByteReader& in);
  void step_load();
  void drop_loads();
  void load_next_rows(LoadJob& load);
  void create_loaded(const Call& call, Command command);

  const RegionOptions options_;
  rpc::Endpoint& endpoint_;
  Directory& directory_;
  std::optional<LogPosition> log_position_;

  // Of the region's thread.
  Role role_ = Role::Idle;
  Lineup lineup_{};
  std::unique_ptr<RegionState> state_;
  RegionLog log_;
  std::uint64_t number_ = 0; // of the last command
  std::list<Parked> parked_;
  bool may_unpark_ = false;
  std::optional<Follower> follower_;
  std::optional<Member> joining_; // waits until it can follow
  std::deque<Unconfirmed> unconfirmed_;
  std::uint64_t fenced_epoch_ = 0; // leaders before it are refused
  bool catching_up_ = false;       // a leader copies the region to this server
  FollowerStream stream_;
  std::vector<HeldBack> held_back_;
  std::size_t held_back_bytes_ = 0;
  std::shared_ptr<CutJob> job_;
  bool job_has_rows_ = false; // job_ has not had all rows
  std::deque<std::shared_ptr<CutJob>> waiting_jobs_;
  std::deque<std::shared_ptr<LoadJob>> loads_;
  std::optional<Clock::time_point> held_until_; // pushes wait: a save begins
  std::vector<std::pair<Call, Command>> held_;

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> tasks_; // guarded by mutex_
  std::atomic<bool> leaving_{false};
  bool stopping_ = false; // guarded by mutex_
  std::thread thread_;    // last: it uses all of the above
};

} // namespace argosy::ps
