// `argosy ckpt`: looks at, verifies, compares, converts and prunes checkpoints.

#include "apps/argosy/ckpt.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <utility>

#include "apps/argosy/commands.h"
#include "argosy/common/error.h"
#include "argosy/common/text.h"
#include "argosy/observe/progress_line.h"

namespace argosy::cli {

namespace {

constexpr std::chrono::seconds kQuiet{2};
constexpr std::chrono::milliseconds kRedraw{100};
constexpr std::chrono::seconds kLines{5};

constexpr const char* kFooter =
    "\nPaths may be URLs: file:///..., s3://bucket/key, "
    "hdfs://host:port/path.\n"
    "Exit code: 0 if all is well or equal, 1 if damaged or different, 2 for "
    "wrong usage\nand errors.";

std::size_t terminal_columns() {
  winsize size{};
  constexpr std::size_t kUsual = 80;
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0
      ? size.ws_col
      : kUsual;
}

std::string fixed(double number, int digits) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.*f", digits, number);
  return text.data();
}

std::string bar_of(double share) {
  constexpr int kWidth = 24;
  const int full = static_cast<int>(std::lround(share * kWidth));
  return "[" + std::string(static_cast<std::size_t>(full), '#') +
      std::string(static_cast<std::size_t>(kWidth - full), '.') + "]";
}

// CLI11 would say that one is missing.
void check_command(
    const CLI::App& app, const std::vector<std::string>& arguments) {
  if (arguments.empty() || arguments[0].starts_with('-')) {
    return;
  }
  std::string known;
  for (const CLI::App* each :
       app.get_subcommands([](const CLI::App*) { return true; })) {
    if (each->get_name() == arguments[0]) {
      return;
    }
    known += (known.empty() ? "" : ", ") + each->get_name();
  }
  throw InvalidArgument(str_format(
      "[ckpt] there is no command \"{}\", expected one of {}",
      arguments[0],
      known));
}

} // namespace

ProgressBar::ProgressBar(std::string verb)
    : verb_(std::move(verb)),
      terminal_(::isatty(STDERR_FILENO) == 1),
      began_(std::chrono::steady_clock::now()),
      next_(began_ + kQuiet) {}

ProgressBar::~ProgressBar() {
  if (open_) {
    std::cerr << "\n";
  }
}

std::string ProgressBar::text(
    const checkpoint::Progress& progress, double seconds) const {
  const double share = progress.total == 0
      ? 1
      : std::min(
            1.0,
            static_cast<double>(progress.bytes) /
                static_cast<double>(progress.total));
  const double rate = static_cast<double>(progress.bytes) / seconds;
  const auto left = static_cast<double>(progress.total - progress.bytes);
  return str(
      verb_,
      " ",
      terminal_ ? bar_of(share) + " " : "",
      fixed(100 * share, 1),
      " % of ",
      bytes_text(progress.total),
      ", ",
      bytes_text(static_cast<std::uint64_t>(rate)),
      "/s, ",
      rate > 0 ? fixed(left / rate, 0) : "?",
      " s left: ",
      progress.what);
}

void ProgressBar::show(const checkpoint::Progress& progress) {
  const auto now = std::chrono::steady_clock::now();
  if (now < next_) {
    return;
  }
  const double seconds = std::chrono::duration<double>(now - began_).count();
  const std::string line = text(progress, seconds);
  if (terminal_) {
    std::cerr << observe::redrawn(line, terminal_columns()) << std::flush;
    open_ = true;
    next_ = now + kRedraw;
  } else {
    std::cerr << line << "\n";
    next_ = now + kLines;
  }
}

checkpoint::OnConvert ProgressBar::callback() {
  return [this](const checkpoint::Progress& progress) { show(progress); };
}

std::string bytes_text(std::uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "kB", "MB", "GB", "TB", "PB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1000 && unit + 1 < std::size(kUnits)) {
    value /= 1000;
    ++unit;
  }
  return str(fixed(value, unit == 0 ? 0 : 2), " ", kUnits[unit]);
}

std::uint64_t parse_bytes(const std::string& text) {
  constexpr std::pair<const char*, double> kUnits[] = {
      {"KiB", 1024.0},
      {"MiB", 1048576.0},
      {"GiB", 1073741824.0},
      {"kB", 1e3},
      {"KB", 1e3},
      {"MB", 1e6},
      {"GB", 1e9},
      {"TB", 1e12},
      {"B", 1},
      {"", 1}};
  for (const auto& [unit, factor] : kUnits) {
    const std::string_view name(unit);
    if (text.size() < name.size() ||
        text.compare(text.size() - name.size(), name.size(), name) != 0) {
      continue;
    }
    const auto number =
        parse_number(trim(text.substr(0, text.size() - name.size())));
    constexpr double kMost = 1e18;
    if (number && *number > 0 && *number * factor < kMost) {
      return static_cast<std::uint64_t>(*number * factor);
    }
  }
  throw InvalidArgument(
      str("[ckpt] \"", text, "\" is no size, expected one as 500MB or 5GiB"));
}

void print_json(const nlohmann::json& json) {
  std::cout << json.dump(
                   2, ' ', false, nlohmann::json::error_handler_t::replace)
            << "\n";
}

std::unique_ptr<checkpoint::Cipher> cipher_of(
    const std::string& key_file, const checkpoint::TensorSet& set) {
  if (key_file.empty()) {
    return nullptr;
  }
  ARGOSY_CHECK(
      set.encryption,
      "[ckpt] a key ({}), but {} is not encrypted",
      key_file,
      set.url);
  return std::make_unique<checkpoint::Cipher>(
      checkpoint::Key::of_file(key_file), *set.encryption);
}

std::string counted(std::size_t number, const std::string& what) {
  return str(number, ' ', what, number == 1 ? "" : "s");
}

int ckpt(const std::vector<std::string>& arguments) {
  CLI::App app(
      "Looks at, verifies, compares, converts and prunes checkpoints "
      "(docs/ckpt-command.md).",
      "argosy ckpt");
  app.require_subcommand(1);
  app.footer(kFooter);
  CkptRun run;
  add_ckpt_ls(app, run);
  add_ckpt_show(app, run);
  add_ckpt_verify(app, run);
  add_ckpt_diff(app, run);
  add_ckpt_convert(app, run);
  add_ckpt_prune(app, run);
  try {
    check_command(app, arguments);
    // CLI11 expects the words in reverse order.
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
    return run();
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kCkptGood : kCkptError;
  } catch (const Error& error) {
    std::cerr << "argosy ckpt: " << error.what() << "\n";
    return kCkptError;
  }
}

} // namespace argosy::cli
