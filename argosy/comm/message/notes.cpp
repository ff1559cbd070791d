#include "argosy/comm/message/notes.h"

#include <algorithm>
#include <cstring>

#include "argosy/common/error.h"

namespace argosy::comm::message {

namespace {

using Length = std::uint32_t;

} // namespace

std::vector<NoteStep> note_steps(int rank, int size) {
  std::vector<NoteStep> steps;
  for (int has = 1; has < size; has *= 2) {
    steps.push_back(
        {.to = (rank - has + size) % size,
         .from = (rank + has) % size,
         .count = std::min(has, size - has)});
  }
  return steps;
}

Notes::Notes(Messenger& messenger, std::size_t max_bytes)
    : messenger_(messenger), max_bytes_(max_bytes) {
  for (const NoteStep& plan : note_steps(messenger.rank(), messenger.size())) {
    Step step{.plan = plan, .buffer = {}, .arrival = {}, .error = {}};
    step.buffer.resize(
        static_cast<std::size_t>(plan.count) * (sizeof(Length) + max_bytes));
    steps_.push_back(std::move(step));
  }
  held_.reserve(
      static_cast<std::size_t>(messenger.size()) *
      (sizeof(Length) + max_bytes));
  for (Step& step : steps_) {
    expect(step);
  }
}

// A rank that has left after this operation is none of its failures.
void Notes::expect(Step& step) {
  try {
    step.arrival = Pending::receive(
        messenger_,
        step.plan.from,
        Tag::Note,
        step.buffer.data(),
        step.buffer.size());
  } catch (const Broken&) {
    step.error = std::current_exception();
  }
}

std::vector<Note> Notes::gather(Note own, Flight& flight) {
  ARGOSY_ASSERT(own.size() <= max_bytes_, own.size());
  held_.clear();
  offsets_ = {0};
  append(own);
  for (Step& step : steps_) {
    // held_ never grows beyond what it reserved: what is on its way stays put.
    flight.send(
        step.plan.to,
        Tag::Note,
        held_.data(),
        offsets_[static_cast<std::size_t>(step.plan.count)]);
    if (step.error) {
      std::rethrow_exception(step.error);
    }
    step.arrival.wait(flight.deadline());
    append(step);
    expect(step);
  }
  flight.wait_all();
  const auto size = static_cast<std::size_t>(messenger_.size());
  const auto rank = static_cast<std::size_t>(messenger_.rank());
  std::vector<Note> notes(size);
  for (std::size_t i = 0; i < size; ++i) {
    const std::size_t begin = offsets_[i] + sizeof(Length);
    notes[(rank + i) % size] =
        Note(held_.data() + begin, offsets_[i + 1] - begin);
  }
  return notes;
}

void Notes::append(Note note) {
  const auto length = static_cast<Length>(note.size());
  const auto* bytes = reinterpret_cast<const std::byte*>(&length);
  held_.insert(held_.end(), bytes, bytes + sizeof(length));
  held_.insert(held_.end(), note.begin(), note.end());
  offsets_.push_back(held_.size());
}

void Notes::append(const Step& step) {
  const std::byte* at = step.buffer.data();
  for (int i = 0; i < step.plan.count; ++i) {
    Length length = 0;
    std::memcpy(&length, at, sizeof(length));
    ARGOSY_ASSERT(length <= max_bytes_, length);
    append(Note(at + sizeof(length), length));
    at += sizeof(length) + length;
  }
}

} // namespace argosy::comm::message
