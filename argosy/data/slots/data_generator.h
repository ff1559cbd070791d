#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <utility>
#include <variant>
#include <vector>

// Programs that turn raw lines into MultiSlot lines: the pipe_command of a slot
// dataset. In any language, such a program reads lines from its standard input
// and writes, for each sample, one line: for each slot the number of its values
// and these, separated by blanks.
namespace argosy::data {

// The values of one slot: ids, floats, or words as they are.
struct GeneratedSlot {
  std::string name;
  std::variant<
      std::vector<std::int64_t>,
      std::vector<double>,
      std::vector<std::string>>
      values;
};

using GeneratedSample = std::vector<GeneratedSlot>;

// Base of generators. A program defines generate_sample() and calls
// run_from_stdin().
class DataGenerator {
 public:
  virtual ~DataGenerator() = default;

  // The samples of a line: none, one or several.
  virtual std::vector<GeneratedSample> generate_sample(
      const std::string& line) = 0;

  // Changes the samples of a batch before they are written: mixes, draws.
  virtual std::vector<GeneratedSample> generate_batch(
      std::vector<GeneratedSample> samples) {
    return samples;
  }
  void set_batch(std::int64_t batch_size);

  // Reads raw lines, and writes MultiSlot lines. Throws InvalidArgument for a
  // sample that cannot be written, with the number of the raw line.
  void run_from_stdin();
  void run(std::istream& raw, std::ostream& out);
  // The same for files: URLs of argosy/fs.
  void run_from_files(const std::vector<std::string>& files, std::ostream& out);

 protected:
  // The line of a sample.
  virtual std::string line_of(const GeneratedSample& sample) = 0;

 private:
  void add(const std::string& line, std::ostream& out);
  void write_batch(std::ostream& out);

  std::int64_t batch_size_ = 32;
  std::int64_t line_ = 0;
  std::vector<GeneratedSample> batch_;
};

// Checks that samples have the slots of the first one, in its order, with
// values of the same kind, and that no slot is empty.
class MultiSlotDataGenerator : public DataGenerator {
 protected:
  std::string line_of(const GeneratedSample& sample) override;

 private:
  std::vector<std::pair<std::string, std::size_t>> slots_; // name, kind
};

// Writes what it gets. Faster, and for words.
class MultiSlotStringDataGenerator : public DataGenerator {
 protected:
  std::string line_of(const GeneratedSample& sample) override;
};

} // namespace argosy::data
