#pragma once

#include <chrono>
#include <memory>
#include <streambuf>
#include <string>
#include <string_view>

#include "argosy/launch/fd.h"

namespace argosy::launch {

// A console that may not read: a pipe to a stopped `less`, a terminal that was
// stopped with Ctrl-S. A thread writes, so that nobody else waits for it.
//
// While the console reads, however slowly, nothing is lost: has_room() tells
// when there is too much to write, and the source must wait. When it has not
// read for two seconds, say() drops lines, counts them, and says how many once
// it reads again. Thread-safe.
class Console {
 public:
  // Does not own the descriptor.
  explicit Console(int fd);
  // Does not wait for what is still to be written; see finish().
  ~Console();
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  int target() const { return target_; }

  // Writes whole lines, in the order of the calls; never blocks.
  void say(std::string_view lines);

  // The same for the launcher's own words, which are few: they are kept while
  // the lines of workers are dropped.
  void say_own(std::string_view text);

  // False: the caller should keep its lines for later, if it can. True also
  // when the console does not read, as waiting for it is of no use then.
  bool has_room() const;

  // Readable when there may be room again. The caller need not empty it.
  int room_fd() const;

  // Waits until all is written, but not longer than `limit` without progress.
  void finish(std::chrono::milliseconds limit);

 private:
  struct State;

  const int target_;
  // The thread has a share: it may be stuck in a write for ever.
  const std::shared_ptr<State> state_;
};

// Makes a stream, such as std::cerr, write to a console while it lives.
class ConsoleStream final : public std::streambuf {
 public:
  ConsoleStream(std::ostream& stream, Console& console);
  ~ConsoleStream() override;
  ConsoleStream(const ConsoleStream&) = delete;
  ConsoleStream& operator=(const ConsoleStream&) = delete;

 protected:
  int_type overflow(int_type letter) override;
  std::streamsize xsputn(const char* text, std::streamsize size) override;
  int sync() override;

 private:
  std::ostream& stream_;
  std::streambuf* const before_;
  Console& console_;
  std::string line_; // until its end, or a flush
};

// Both consoles of a launcher. While it lives, std::cout and std::cerr write to
// them. The destructor waits for a console that reads, and for up to 30 s for
// one that does not.
class Consoles {
 public:
  Consoles();
  ~Consoles();
  Consoles(const Consoles&) = delete;
  Consoles& operator=(const Consoles&) = delete;

  // STDOUT_FILENO or STDERR_FILENO.
  Console& of(int fd);

 private:
  Console out_;
  Console err_;
  std::unique_ptr<ConsoleStream> cout_;
  std::unique_ptr<ConsoleStream> cerr_;
};

} // namespace argosy::launch
