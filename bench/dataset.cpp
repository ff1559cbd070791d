// Slot datasets: parsing MultiSlot text beside a loop of std::from_chars and
// std::istringstream, loading, batches, other formats, what a worker waits for
// its batches, and the shuffle between workers beside an all_to_all of as many
// bytes and a copy of them.

#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>

#include <array>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <random>
#include <sstream>

#include "argosy/argosy.h"
#include "argosy/common/file.h"
#include "argosy/data/slots/in_memory_dataset.h"
#include "argosy/data/slots/queue_dataset.h"
#include "argosy/data/slots/slot_batch.h"
#include "argosy/observe/event_record.h"
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

// A sample as text: what the formats have in common.
struct Click {
  std::string label;
  std::vector<std::string> numbers;
  std::vector<std::vector<std::uint64_t>> bags;
};

class Clicks {
 public:
  Click next() {
    Click click{.label = std::to_string(random_() % 2)};
    for (int i = 0; i < kFloats; ++i) {
      std::array<char, 32> number{};
      std::snprintf(
          number.data(),
          number.size(),
          "%.4f",
          static_cast<double>(random_() % 100000) / 1e5);
      click.numbers.emplace_back(number.data());
    }
    for (int i = 0; i < kIdSlots; ++i) {
      auto& bag = click.bags.emplace_back(1 + random_() % 3);
      for (std::uint64_t& id : bag) {
        id = random_() >> (random_() % 3 * 20);
      }
    }
    return click;
  }

 private:
  std::mt19937_64 random_{1};
};

template <typename T>
std::string joined(const std::vector<T>& values, const char* separator) {
  std::string text;
  for (const T& value : values) {
    text += str(text.empty() ? "" : separator, value);
  }
  return text;
}

std::string multi_slot_line(const Click& click) {
  std::string line =
      str("1 ", click.label, " ", kFloats, " ", joined(click.numbers, " "));
  for (const auto& bag : click.bags) {
    line += str(" ", bag.size(), " ", joined(bag, " "));
  }
  return line + "\n";
}

std::string csv_line(const Click& click) {
  std::string line = str(click.label, ",", joined(click.numbers, "|"));
  for (const auto& bag : click.bags) {
    line += str(",", joined(bag, "|"));
  }
  return line + "\n";
}

std::string json_line(const Click& click) {
  std::string line =
      str("{\"label\": ",
          click.label,
          ", \"numbers\": [",
          joined(click.numbers, ", "),
          "]");
  for (std::size_t i = 0; i < click.bags.size(); ++i) {
    line += str(", \"c", i, "\": [", joined(click.bags[i], ", "), "]");
  }
  return line + "}\n";
}

// Protobuf: a length and bytes behind the field's key.
std::string message(char key, const std::string& bytes) {
  std::string text(1, key);
  std::size_t size = bytes.size();
  for (; size >= 128; size >>= 7) {
    text += static_cast<char>(size | 128);
  }
  return text + static_cast<char>(size) + bytes;
}

std::string feature(const std::string& name, const std::string& list) {
  return message(10, message(10, name) + message(18, list));
}

std::string tf_record(const Click& click) {
  const auto floats = [](const std::vector<std::string>& texts) {
    std::string bytes;
    for (const std::string& text : texts) {
      const float value = std::stof(text);
      bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
    }
    return message(18, message(10, bytes));
  };
  std::string features = feature("label", floats({click.label})) +
      feature("numbers", floats(click.numbers));
  for (std::size_t i = 0; i < click.bags.size(); ++i) {
    std::string bytes;
    for (std::uint64_t id : click.bags[i]) {
      for (; id >= 128; id >>= 7) {
        bytes += static_cast<char>(id | 128);
      }
      bytes += static_cast<char>(id);
    }
    features += feature(str("c", i), message(26, message(10, bytes)));
  }
  return observe::framed(message(10, features));
}

std::string click_text(std::size_t bytes) {
  Clicks clicks;
  std::string text;
  while (text.size() < bytes) {
    text += multi_slot_line(clicks.next());
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

// Thousands of samples a second that one thread reads of a file.
double thousand_read_per_second(
    const std::string& file, const FormatOptions& format) {
  SlotDatasetOptions options{.slots = click_slots()};
  options.format = format;
  InMemoryDataset dataset(options);
  dataset.set_filelist({file});
  const double ms = milliseconds_of([&] { dataset.load_into_memory(); });
  return static_cast<double>(dataset.memory_data_size()) / ms;
}

void race_formats(Report& report, const std::string& folder, int rounds) {
  constexpr int kSamples = 30000;
  Clicks clicks;
  std::string csv = "label,numbers";
  for (int i = 0; i < kIdSlots; ++i) {
    csv += str(",c", i);
  }
  csv += "\n";
  std::string multi_slot;
  std::string json;
  std::string records;
  for (int i = 0; i < kSamples; ++i) {
    const Click click = clicks.next();
    multi_slot += multi_slot_line(click);
    csv += csv_line(click);
    json += json_line(click);
    records += tf_record(click);
  }
  const auto contestant = [&](const char* name,
                              const std::string& content,
                              const FormatOptions& format) {
    const std::string file = str(folder, "/", name);
    write_file(file, content);
    return Contestant{
        name, [=] { return thousand_read_per_second(file, format); }};
  };
  report.add(race(
      "read the same samples, one core (asked: 50)",
      "thousand samples/s",
      Better::Higher,
      rounds,
      {contestant("ours", multi_slot, MultiSlotOptions()),
       contestant("TFRecord", records, TfRecordOptions()),
       contestant("CSV", csv, CsvOptions()),
       contestant("JSON lines", json, JsonLinesOptions())}));
}

// The share of its time that a worker waits for batches when it takes 50,000
// samples a second, beside one thread that reads.
void race_waiting(Report& report, const std::string& file, int rounds) {
  constexpr std::int64_t kBatch = 512;
  constexpr std::chrono::microseconds kStep(kBatch * 1'000'000 / 50'000);
  using Clock = std::chrono::steady_clock;
  SlotDatasetOptions options{.slots = click_slots(), .batch_size = kBatch};
  QueueDataset queue(options);
  queue.set_filelist({file});
  const auto waited = [&] {
    const auto pass = queue.start_pass();
    pass->next(); // the first batch comes when the file is open
    Clock::duration waiting{};
    const auto began = Clock::now();
    for (auto before = began;;) {
      const bool is_there = pass->next().has_value();
      waiting += Clock::now() - before;
      if (!is_there) {
        break;
      }
      const auto computed = Clock::now() + kStep;
      while (Clock::now() < computed) {
      }
      before = Clock::now();
    }
    return 100.0 * static_cast<double>(waiting.count()) /
        static_cast<double>((Clock::now() - began).count());
  };
  report.add(race(
      "waiting for batches at 50,000 samples/s",
      "% of the time",
      Better::Lower,
      rounds,
      {{"ours", waited}}));
}

// Each worker of two exchanges its samples, all_to_all as many bytes, and
// memcpy copies them: what reading and writing each byte once takes.
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
        const at::Tensor received = at::ones({bytes}, at::kByte);
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
             {"all_to_all",
              [&] { return timed([&] { alltoall_single(received, sent); }); }},
             {"memcpy", [&] {
                return timed([&] {
                  std::memcpy(
                      received.data_ptr(),
                      sent.data_ptr(),
                      static_cast<std::size_t>(bytes));
                });
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
  race_formats(report, dir.path().string(), rounds);
  race_waiting(report, file, flags.quick ? 1 : 3);
  race_shuffle(report, file, rounds);
  report.finish();
}

} // namespace
} // namespace argosy::bench

int main(int argc, char** argv) {
  return argosy::record(
      [&] { argosy::bench::run(argosy::bench::parse_flags(argc, argv)); });
}
