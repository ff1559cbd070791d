#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "argosy/common/deadline.h"
#include "argosy/ps/table/dense_table.h"
#include "argosy/ps/table/row_batch.h"
#include "argosy/ps/table/save_mode.h"
#include "argosy/rpc/incoming_call.h"

namespace argosy::ps {

class RegionState;
class RegionLog;

// Something that reads a consistent cut of a region's rows beside traffic: a
// save, a snapshot for the log, a copy for a follower. A region has one at a
// time. All methods but the constructor run on the region's thread, between
// other work, and take well below a millisecond.
class CutJob {
 public:
  virtual ~CutJob() = default;

  virtual SaveMode mode() const { return SaveMode::Checkpoint; }

  // The cut is now.
  virtual void begin(RegionState& state, std::uint64_t number) = 0;
  // Whether it takes more rows now, or has to wait for something.
  virtual bool is_ready() { return true; }
  virtual void add(std::uint32_t table, RowBatch rows) = 0;
  // There are no more rows.
  virtual void end() = 0;
  // Whether all is done after end().
  virtual bool is_finished() { return true; }
  // Something went wrong; end() is not called.
  virtual void abort(const std::string& why) = 0;
};

// Shortens the log.
class CompactJob final : public CutJob {
 public:
  explicit CompactJob(RegionLog& log) : log_(log) {}

  void begin(RegionState& state, std::uint64_t number) override;
  void add(std::uint32_t table, RowBatch rows) override;
  void end() override;
  void abort(const std::string& why) override;

 private:
  RegionLog& log_;
};

// What a client asks for.
struct SaveRequest {
  std::string folder;
  SaveMode mode = SaveMode::Checkpoint;
  int table = -1; // -1: all tables
  std::uint64_t client = 0;
  std::uint64_t number = 0;
};

// Writes the region's files. The tables give their rows to a thread that
// writes; a queue between them is short, so a slow disk slows the save and
// nothing else.
class SaveJob final : public CutJob {
 public:
  SaveJob(SaveRequest request, std::shared_ptr<rpc::IncomingCall> call);
  ~SaveJob() override;

  const SaveRequest& request() const { return request_; }
  const std::shared_ptr<rpc::IncomingCall>& call() const { return call_; }

  SaveMode mode() const override { return request_.mode; }
  void begin(RegionState& state, std::uint64_t number) override;
  bool is_ready() override;
  void add(std::uint32_t table, RowBatch rows) override;
  void end() override;
  bool is_finished() override;
  void abort(const std::string& why) override;

 private:
  struct Writers;

  void write_all();
  void write_next(std::unique_lock<std::mutex>& lock);
  void fail(const std::string& why);
  void throw_failure();

  const SaveRequest request_;
  const std::shared_ptr<rpc::IncomingCall> call_;
  std::unique_ptr<Writers> writers_; // of the thread

  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  std::deque<std::pair<std::uint32_t, RowBatch>> queue_;
  bool ended_ = false;
  bool finished_ = false;
  bool stopped_ = false;
  std::string failure_;

  std::thread thread_;
};

} // namespace argosy::ps
