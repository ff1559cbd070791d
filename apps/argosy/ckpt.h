#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "argosy/checkpoint/cipher.h"
#include "argosy/checkpoint/convert/convert.h"
#include "argosy/checkpoint/import/tensor_set.h"

// What the subcommands of `argosy ckpt` share. Each adds itself to the parser
// in a file of its name, and sets what to run.
namespace argosy::cli {

// 0: all is well, or equal; 1: damaged, or different; 2: wrong usage, or an
// error.
inline constexpr int kCkptGood = 0;
inline constexpr int kCkptBad = 1;
inline constexpr int kCkptError = 2;

using CkptRun = std::function<int()>;

void add_ckpt_ls(CLI::App& app, CkptRun& run);
void add_ckpt_show(CLI::App& app, CkptRun& run);
void add_ckpt_verify(CLI::App& app, CkptRun& run);
void add_ckpt_diff(CLI::App& app, CkptRun& run);
void add_ckpt_convert(CLI::App& app, CkptRun& run);
void add_ckpt_prune(CLI::App& app, CkptRun& run);

// Shows how far something is on standard error, once it takes two seconds: a
// bar that is redrawn on a terminal, otherwise a line every few seconds.
class ProgressBar {
 public:
  explicit ProgressBar(std::string verb);
  ~ProgressBar(); // ends the line
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void show(const checkpoint::Progress& progress);
  // To be passed on; the bar must outlive it.
  checkpoint::OnConvert callback();

 private:
  std::string text(const checkpoint::Progress& progress, double seconds) const;

  const std::string verb_;
  const bool terminal_;
  const std::chrono::steady_clock::time_point began_;
  std::chrono::steady_clock::time_point next_;
  bool open_ = false; // the line has no end yet
};

// "1.50 GB": in powers of 1000, as disks have it.
std::string bytes_text(std::uint64_t bytes);
// "1 tensor", "2 tensors".
std::string counted(std::size_t number, const std::string& what);
// "500", "64MB", "1.5 GiB"; throws InvalidArgument for others.
std::uint64_t parse_bytes(const std::string& text);

void print_json(const nlohmann::json& json);

// The cipher for a source that is encrypted, of the key in a file; null if
// there is no file. Throws InvalidArgument if the source is not encrypted.
std::unique_ptr<checkpoint::Cipher> cipher_of(
    const std::string& key_file, const checkpoint::TensorSet& set);

inline constexpr const char* kKeyHelp =
    "File with the key of an encrypted checkpoint: 32 bytes, or 64 hex digits";
inline constexpr const char* kJsonHelp = "Print JSON";

} // namespace argosy::cli
