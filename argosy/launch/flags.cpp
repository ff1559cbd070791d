#include "argosy/launch/flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "argosy/common/error.h"
#include "argosy/common/net.h"
#include "argosy/common/text.h"
#include "argosy/launch/flag_table.h"
#include "argosy/launch/foreign_flags.h"

namespace argosy::launch {

namespace {

constexpr const char* kFooter = R"(
Parentheses show defaults. Flags may be written with underscores instead of
dashes. A flag that is absent is read from the variable PET_<NAME>, for example
PET_NPROC_PER_NODE. All words after PROGRAM are its arguments.

Examples:
  argosy run -n 4 ./train --lr 0.1
  argosy run -n 8 --max-restarts 3 --log-dir logs -t 3 ./train
  argosy run --nnodes 2 --rdzv-endpoint node0:29400 --rdzv-id job7 -n 8 ./train
  argosy run --nnodes 2 --node-rank 1 --master-addr node0 -n 8 ./train
  argosy run --hostfile hosts -n 8 ./train
  argosy run --server-num 2 --trainer-num 4 ./ps_train)";

std::string all_names(const Flag& flag) {
  const std::string others = flag.others;
  return str(others, others.empty() ? "" : ",", "--", flag.name);
}

CLI::Option* add_flag(CLI::App& app, const Flag& flag, CommandLine& line) {
  const std::string name = flag.name;
  if (name == "env") {
    return app.add_option("--env", line.env, flag.meaning);
  }
  if (*flag.value != '\0') {
    const auto keep = [&line, name](const std::string& text) {
      line.values[name] = text;
    };
    return app
        .add_option_function<std::string>(all_names(flag), keep, flag.meaning)
        ->take_last();
  }
  const auto keep = [&line, name](std::int64_t count) {
    line.values[name] = count > 0 ? "1" : "0";
  };
  return app.add_flag_function(all_names(flag), keep, flag.meaning)
      ->take_last();
}

// Options write into `line`, which must outlive the parser. A flag that is
// given twice has its last value, as in torchrun.
std::unique_ptr<CLI::App> make_parser(CommandLine& line) {
  auto app = std::make_unique<CLI::App>(
      "Starts a program on several ranks, and stops all of them if one fails.",
      "argosy run");
  app->set_help_flag("-h,--help", "print this help and exit");
  app->footer(kFooter);
  app->get_formatter()->column_width(40);
  for (const FlagTheme& theme : flag_themes()) {
    for (const Flag& flag : theme.flags) {
      add_flag(*app, flag, line)->type_name(flag.value)->group(theme.title);
    }
  }
  return app;
}

[[noreturn]] void throw_unknown(const std::string& word) {
  std::vector<std::string> names = {"--help"};
  for (const FlagTheme& theme : flag_themes()) {
    for (const Flag& flag : theme.flags) {
      names.push_back(str("--", flag.name));
    }
  }
  const auto meant = nearest(word, names);
  throw InvalidArgument(str_format(
      "[launch.options] {}: no such flag{} See argosy run --help.",
      word,
      meant ? str("; did you mean ", *meant, "?") : "."));
}

// "--nproc_per_node=4" -> "--nproc-per-node=4".
std::string with_dashes(std::string word) {
  if (word.starts_with("--")) {
    const auto end = std::min(word.find('='), word.size());
    std::replace(word.begin(), word.begin() + end, '_', '-');
  }
  return word;
}

// How many words the flag at the front takes: itself, and its value unless
// that is attached (--nnodes=2, -n4).
std::size_t flag_words(const CLI::App& app, const std::string& word) {
  const bool is_long = word.starts_with("--");
  const std::string name =
      is_long ? word.substr(0, word.find('=')) : word.substr(0, 2);
  const CLI::Option* option = app.get_option_no_throw(name);
  if (option == nullptr) {
    throw_unknown(name);
  }
  const bool attached = word.size() > name.size();
  return option->get_items_expected_min() == 0 || attached ? 1 : 2;
}

// Moves the words of our own flags to the front part; the rest is the program.
// CLI11 alone would also take flags that follow the program's name.
std::pair<std::vector<std::string>, std::vector<std::string>> split_program(
    const CLI::App& app, const std::vector<std::string>& words) {
  std::vector<std::string> own;
  std::size_t next = 0;
  while (next < words.size() && words[next].size() > 1 &&
         words[next].starts_with('-') && words[next] != "--") {
    const std::string word = with_dashes(words[next]);
    const std::size_t count = flag_words(app, word);
    ARGOSY_CHECK(
        next + count <= words.size(),
        "[launch.options] {}: the value is missing",
        word);
    own.push_back(word);
    if (count == 2) {
      own.push_back(words[next + 1]);
    }
    next += count;
  }
  next += next < words.size() && words[next] == "--" ? 1 : 0;
  return {own, {words.begin() + next, words.end()}};
}

std::string variable_of(const Flag& flag) {
  std::string name = str("PET_", flag.name);
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) {
    return c == '-' ? '_' : static_cast<char>(std::toupper(c));
  });
  return name;
}

void fill_from(
    const Environment& environment, const Flag& flag, CommandLine& line) {
  const std::string variable = variable_of(flag);
  if (line.has(flag.name) || !environment.has(variable)) {
    return;
  }
  const bool is_switch = *flag.value == '\0';
  line.values[flag.name] = is_switch
      ? (*environment.find_bool(variable) ? "1" : "0")
      : *environment.find(variable);
}

} // namespace

std::string CommandLine::get(
    const std::string& name, std::string_view fallback) const {
  const auto found = values.find(name);
  return found == values.end() ? std::string(fallback) : found->second;
}

CommandLine parse_command_line(
    const std::vector<std::string>& words, const Environment& environment) {
  CommandLine line;
  const auto app = make_parser(line);
  auto [own, program] = split_program(*app, words);
  line.program = std::move(program);
  std::ranges::reverse(own); // CLI11 takes words from the back
  try {
    app->parse(std::move(own));
  } catch (const CLI::CallForHelp&) {
    line.help = true;
  } catch (const CLI::ParseError& error) {
    throw InvalidArgument(str("[launch.options] ", error.what()));
  }
  // Before the variables: what is written counts more.
  translate_foreign_flags(line, is_local_host);
  for (const FlagTheme& theme : flag_themes()) {
    for (const Flag& flag : theme.flags) {
      if (!theme.is_foreign) {
        fill_from(environment, flag, line);
      }
    }
  }
  return line;
}

std::string run_help() {
  CommandLine unused;
  std::string text = make_parser(unused)->help();
  // CLI11 knows nothing of what we cut off before it parses.
  constexpr std::string_view kUsage = "[OPTIONS]";
  text.replace(
      text.find(kUsage), kUsage.size(), "[OPTIONS] PROGRAM [ARGUMENTS]");
  for (std::size_t at = 0; (at = text.find("\n\n\n")) != std::string::npos;) {
    text.erase(at, 1);
  }
  return text;
}

} // namespace argosy::launch
