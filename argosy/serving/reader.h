#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "argosy/serving/snapshot.h"

namespace argosy::serving {

struct ReaderOptions {
  // How often a thread looks for new exports; 0: refresh() alone does.
  std::chrono::milliseconds period = std::chrono::milliseconds(500);
  // How long the constructor waits for the first base.
  std::chrono::milliseconds timeout = std::chrono::seconds(60);
  bool verify = true; // hashes: reads each new export once
};

// Follows the exports of a folder while a trainer writes them: maps new ones
// beside the lookups, then all later lookups see them at once. Needs no torch
// and no servers. Thread-safe.
//
//   serving::Reader reader("exports");
//   const auto model = reader.snapshot();   // one version
//   model->lookup("items", ids, rows);
//   model->lookup("users", others, more);   // of the same version
class Reader {
 public:
  // Blocks until there is a base. Throws TimeoutError, which says what was
  // wrong with the exports that were there.
  explicit Reader(std::filesystem::path folder, ReaderOptions options = {});
  ~Reader();
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  // The newest version. Take one for lookups that belong together.
  std::shared_ptr<const Snapshot> snapshot() const;

  // Looks for new exports now; returns whether there is a new version. When an
  // export is missing or damaged, the reader stays on the last version before
  // it; see problem().
  bool refresh();

  // What is wrong with the newest exports, with the file's name; empty: all is
  // well.
  std::string problem() const;

 private:
  void watch();

  const std::filesystem::path folder_;
  const ReaderOptions options_;

  std::mutex refreshing_; // held during refresh()
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  std::shared_ptr<const Snapshot> snapshot_;
  std::string problem_;
  bool stopping_ = false;

  std::thread watcher_;
};

} // namespace argosy::serving
