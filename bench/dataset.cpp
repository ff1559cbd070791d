// Slot datasets: parsing MultiSlot text beside a loop of std::from_chars and
// std::istringstream, loading, batches, and the shuffle between workers beside
// an all_to_all of as many bytes.

#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>

#include <charconv>
#include <cstdio>
#include <random>
#include <sstream>

#include "argosy/argosy.h"
#include "argosy/common/file.h"
#include "argosy/data/slots/in_memory_dataset.h"
#include "argosy/data/slots/queue_dataset.h"
#include "argosy/data/slots/slot_batch.h"
#include "argosy/testing/ranks.h"
#include "bench/harness.h"

namespace argosy::bench {
namespace {

using namespace data;

constexpr int kIdSlots = 26;
constexpr int kFloats = 13;

// As a click log: a label, 13 numbers, 26 bags of one to three hashed ids.
Slots click_slots() {
  Slots slots = {
      {"label", SlotType::Float, {1}}, {"numbers", SlotType::Float, {kFloats}}};
  for (int i = 0; i < kIdSlots; ++i) {
    slots.push_back({str("c", i), SlotType::Id, {}});
  }
  return slots;
}

std::string click_text(std::size_t bytes) {
  std::mt19937_64 random(1);
  std::string text;
  while (text.size() < bytes) {
    text += str("1 ", random() % 2, " ", kFloats);
    for (int i = 0; i < kFloats; ++i) {
      std::array<char, 32> number{};
      std::snprintf(
          number.data(),
          number.size(),
          " %.4f",
          static_cast<double>(random() % 100000) / 1e5);
      text += number.data();
    }
    for (int i = 0; i < kIdSlots; ++i) {
      const auto count = 1 + random() % 3;
      text += str(" ", count);
      for (std::uint64_t k = 0; k < count; ++k) {
        text += str(" ", random() >> (random() % 3 * 20));
      }
    }
    text += '\n';
  }
  return text;
}

double megabytes_per_second(std::size_t bytes, double milliseconds) {
  return static_cast<double>(bytes) / 1e3 / milliseconds;
}

volatile double sink = 0; // so that results count as used

// The bound: every number once, and nothing else.
double from_chars_ms(const std::string& text) {
  return milliseconds_of([&] {
    double sum = 0;
    const char* const end = text.data() + text.size();
    for (const char* at = text.data(); at < end;) {
      if (*at == ' ' || *at == '\n') {
        ++at;
        continue;
      }
      const char* stop = at;
      bool has_point = false;
      for (; stop < end && *stop != ' ' && *stop != '\n'; ++stop) {
        has_point = has_point || *stop == '.';
      }
      if (has_point) {
        float value = 0;
        std::from_chars(at, stop, value);
        sum += value;
      } else {
        std::uint64_t value = 0;
        std::from_chars(at, stop, value);
        sum += static_cast<double>(value);
      }
      at = stop;
    }
    sink = sum;
  });
}

double istringstream_ms(const std::string& text) {
  return milliseconds_of([&] {
    double sum = 0;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      for (int slot = 0; slot < kIdSlots + 2; ++slot) {
        std::size_t count = 0;
        words >> count;
        for (; count > 0; --count) {
          if (slot < 2) {
            float value = 0;
            words >> value;
            sum += value;
          } else {
            std::uint64_t value = 0;
            words >> value;
            sum += static_cast<double>(value);
          }
        }
      }
    }
    sink = sum;
  });
}

double parse_ms(const std::string& text, const MultiSlotParser& parser) {
  Records records;
  return milliseconds_of([&] {
    std::string_view left = text;
    while (!left.empty()) {
      const std::size_t end = left.find('\n');
      if (parser.parse(left.substr(0, end), records)) {
        throw Error("the bench's own line is bad");
      }
      left.remove_prefix(end + 1);
    }
  });
}

void race_parsing(Report& report, const std::string& text, int rounds) {
  const MultiSlotParser parser(click_slots());
  report.add(race(
      "parse MultiSlot text, one core",
      "MB/s",
      Better::Higher,
      rounds,
      {{"ours",
        [&] {
          return megabytes_per_second(text.size(), parse_ms(text, parser));
        }},
       {"from_chars",
        [&] { return megabytes_per_second(text.size(), from_chars_ms(text)); }},
       {"istringstream", [&] {
          return megabytes_per_second(text.size(), istringstream_ms(text));
        }}}));
}

// Samples a second through the whole reader, up to tensors, by one thread that
// reads and one that takes batches.
void race_reading(
    Report& report, const std::string& file, std::size_t bytes, int rounds) {
  SlotDatasetOptions options{.slots = click_slots(), .batch_size = 512};
  const auto samples_per_second = [&](SlotDataset& dataset) {
    std::int64_t samples = 0;
    const double ms = milliseconds_of([&] {
      const auto pass = dataset.start_pass();
      while (const auto batch = pass->next()) {
        samples += batch->size;
      }
    });
    return static_cast<double>(samples) / ms;
  };
  QueueDataset queue(options);
  queue.set_filelist({file});
  InMemoryDataset memory(options);
  memory.set_filelist({file});
  report.add(race(
      "read a file into memory",
      "MB/s",
      Better::Higher,
      rounds,
      {{"ours", [&] {
          return megabytes_per_second(
              bytes, milliseconds_of([&] { memory.load_into_memory(); }));
        }}}));
  report.add(race(
      "batches of 512 from a file (asked: 50)",
      "thousand samples/s",
      Better::Higher,
      rounds,
      {{"ours", [&] { return samples_per_second(queue); }}}));
  report.add(race(
      "batches of 512 from memory",
      "thousand samples/s",
      Better::Higher,
      rounds,
      {{"ours", [&] { return samples_per_second(memory); }}}));
}

void race_shuffle(Report& report, const std::string& file, int rounds) {
  std::vector<Row> rows(2);
  testing::run_ranks(
      2,
      [&](World& world) {
        InMemoryDataset dataset({.slots = click_slots()});
        dataset.set_filelist({file});
        dataset.load_into_memory();
        const std::int64_t bytes = dataset.memory_bytes() / 2 * 2;
        const at::Tensor sent = at::ones({bytes}, at::kByte);
        const at::Tensor received = at::empty({bytes}, at::kByte);
        const auto timed = [&](const auto& act) {
          barrier();
          const double ms = milliseconds_of([&] {
            act();
            barrier();
          });
          return megabytes_per_second(static_cast<std::size_t>(bytes), ms);
        };
        rows[static_cast<std::size_t>(world.rank())] = race(
            "global shuffle, 2 workers",
            "MB/s and worker",
            Better::Higher,
            rounds,
            {{"ours", [&] { return timed([&] { dataset.global_shuffle(); }); }},
             {"all_to_all", [&] {
                return timed([&] { alltoall_single(received, sent); });
              }}});
      },
      std::chrono::minutes(2));
  report.add(rows[0]);
}

void run(const Flags& flags) {
  Report report("dataset", flags);
  const int rounds = flags.quick ? 5 : 15;
  const std::string text =
      click_text(std::size_t{flags.quick ? 16U : 64U} << 20);
  const TempDir dir;
  write_file(dir.path() / "clicks", text);
  const std::string file = (dir.path() / "clicks").string();
  race_parsing(report, text, rounds);
  race_reading(report, file, text.size(), rounds);
  race_shuffle(report, file, rounds);
  report.finish();
}

} // namespace
} // namespace argosy::bench

int main(int argc, char** argv) {
  return argosy::record(
      [&] { argosy::bench::run(argosy::bench::parse_flags(argc, argv)); });
}
