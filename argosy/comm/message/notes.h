#pragma once

#include <cstddef>
#include <exception>
#include <span>
#include <vector>

#include "argosy/comm/message/flight.h"

namespace argosy::comm::message {

using Note = std::span<const std::byte>;

// A step of gathering notes: a rank that has those of `has` ranks, its own and
// of those after it, passes the first `count` of them on.
struct NoteStep {
  int to = 0;
  int from = 0;
  int count = 0; // notes each way

  bool operator==(const NoteStep&) const = default;
};

// After log2(size) steps, rounded up, every rank has the notes of all: the
// algorithm of Bruck. No rank meets another twice in the same direction.
std::vector<NoteStep> note_steps(int rank, int size);

// Short messages of every rank to every rank, over and over. What the others
// send next has a place before they send it, so that nobody waits for leave to
// send. Used by one thread at a time.
class Notes {
 public:
  Notes(Messenger& messenger, std::size_t max_bytes);

  std::size_t max_bytes() const { return max_bytes_; }

  // Returns the notes of all ranks, valid until the next call.
  std::vector<Note> gather(Note own, Flight& flight);

 private:
  struct Step {
    NoteStep plan;
    std::vector<std::byte> buffer; // what `plan.from` sends
    Pending arrival;
    std::exception_ptr error; // that the next arrival met already
  };

  void expect(Step& step);
  void append(Note note);
  void append(const Step& step);

  Messenger& messenger_;
  const std::size_t max_bytes_;
  std::vector<Step> steps_;
  std::vector<std::byte> held_;      // notes, each behind its length
  std::vector<std::size_t> offsets_; // of the notes in held_, and its end
};

} // namespace argosy::comm::message
