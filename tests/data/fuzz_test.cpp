// Broken files of images, tokens, tokenizers, sampler states and samples. A
// reader may refuse a file by an error of ours, and must do nothing else: what
// it returns lies inside of the file.
#include <gtest/gtest.h>
#include <zlib.h>

#include "argosy/data/idx.h"
#include "argosy/data/megatron_file.h"
#include "argosy/data/sampler.h"
#include "argosy/data/slots/sample_format.h"
#include "argosy/data/token_files.h"
#include "argosy/data/tokenizer.h"
#include "argosy/fs/stream.h"
#include "argosy/observe/event_record.h"
#include "tests/support/mutations.h"

namespace argosy::data {
namespace {

using argosy::testing::fuzz_for;
using argosy::testing::kFuzzSeed;
using argosy::testing::Mutator;
using argosy::testing::read_corpus;

const std::string kCorpus =
    std::string(ARGOSY_SOURCE_DIR) + "/tests/data/corpus/";

// A file that is written anew for each input. In memory: it is never synced.
class InputFile {
 public:
  explicit InputFile(const std::string& name) : path_(folder_.path() / name) {}

  const std::filesystem::path& path() const { return path_; }

  void put(const std::string& content) const {
    std::FILE* const file = std::fopen(path_.c_str(), "wb");
    ASSERT_NE(file, nullptr);
    ASSERT_EQ(
        std::fwrite(content.data(), 1, content.size(), file), content.size());
    std::fclose(file);
  }

 private:
  const TempDir folder_{"/dev/shm/fuzz"};
  const std::filesystem::path path_;
};

template <typename Read>
bool is_read(const Read& read) {
  try {
    read();
    return true;
  } catch (const Error&) {
    return false;
  }
}

std::string compressed(const std::string& text) {
  std::string out(text.size() + 100, '\0');
  z_stream stream{};
  deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

void fuzz_images(std::uint64_t seed) {
  std::vector<std::string> corpus = read_corpus(kCorpus + "idx.hex", true);
  for (std::size_t i = corpus.size(); i > 0; --i) {
    corpus.push_back(compressed(corpus[i - 1]));
  }
  const InputFile file("images");
  Mutator inputs(corpus, seed);
  int read = 0;
  for (int i = 0; i < 10'000; ++i) {
    file.put(inputs.next());
    read += is_read([&] {
      const IdxImages images(file.path(), file.path());
      if (images.size() > 0) {
        images.get(images.size() - 1);
      }
    });
    read += is_read([&] {
      const IdxArray array = read_idx(file.path());
      std::size_t count = 1;
      for (const std::int64_t extent : array.shape) {
        count *= static_cast<std::size_t>(extent);
      }
      ASSERT_EQ(count, array.values.size());
    });
  }
  EXPECT_GT(read, 100);
  EXPECT_LT(read, 9'000);
}

std::int64_t sum_of(const Tokens& tokens) {
  std::int64_t sum = 0;
  for (const std::int64_t token : tokens.read(0, tokens.size())) {
    sum += token;
  }
  return sum;
}

void fuzz_tokens(std::uint64_t seed) {
  const InputFile file("tokens.bin");
  // llm.c's headers are 1024 bytes, most of them zeros.
  std::vector<std::string> corpus = read_corpus(kCorpus + "tokens.hex", true);
  for (std::string& each : corpus) {
    each.insert(12, 1024 - 12, '\0');
  }
  corpus.push_back("nanoGPT!");
  Mutator inputs(corpus, seed);
  int read = 0;
  for (int i = 0; i < 10'000; ++i) {
    file.put(inputs.next());
    read += is_read([&] { sum_of(open_tokens(file.path())); });
    read += is_read([&] { sum_of(open_llmc(file.path())); });
  }
  EXPECT_GT(read, 100);
}

// Everything that the index leads to.
void walk(const MegatronFile& file) {
  sum_of(file.tokens());
  for (std::int64_t i = 0; i < file.num_sequences(); ++i) {
    sum_of(file.sequence(i));
  }
  for (std::int64_t i = 0; i < file.num_documents(); ++i) {
    const auto [begin, end] = file.document(i);
    ASSERT_LE(begin, end);
    ASSERT_LE(end, file.num_sequences());
  }
}

void fuzz_megatron(std::uint64_t seed) {
  const InputFile index("tokens.idx");
  auto prefix = index.path();
  prefix.replace_extension();
  std::vector<std::string> corpus;
  for (const TokenType type : {TokenType::U16, TokenType::I32}) {
    MegatronWriter writer(prefix, type);
    writer.add_sequence(std::vector<std::int64_t>{1, 2, 3});
    writer.end_document();
    writer.add_sequence(std::vector<std::int64_t>{4});
    writer.add_sequence(std::vector<std::int64_t>{});
    writer.end_document();
    writer.finish();
    corpus.push_back(*read_file(index.path()));
  }
  Mutator inputs(corpus, seed);
  int read = 0;
  for (int i = 0; i < 10'000; ++i) {
    index.put(inputs.next());
    read += is_read([&] { walk(MegatronFile(prefix)); });
  }
  EXPECT_GT(read, 20);
  EXPECT_LT(read, 9'000);
}

void fuzz_tokenizers(std::uint64_t seed) {
  const InputFile file("tokenizer.json");
  Mutator inputs(read_corpus(kCorpus + "tokenizers.json"), seed);
  int read = 0;
  for (int i = 0; i < 10'000; ++i) {
    file.put(inputs.next());
    read += is_read([&] {
      const Tokenizer tokenizer = Tokenizer::load(file.path());
      ASSERT_EQ(tokenizer.decode(tokenizer.encode("low lower")), "low lower");
    });
  }
  EXPECT_GT(read, 100);
}

void fuzz_sampler_states(std::uint64_t seed) {
  Mutator inputs({SamplerState{.epoch = 3, .position = 4}.to_json()}, seed);
  int read = 0;
  for (int i = 0; i < 20'000; ++i) {
    read += is_read([&] { SamplerState::from_json(inputs.next()); });
  }
  EXPECT_GT(read, 100);
}

// A stream of text in memory, a few bytes at a time.
class ShortReads final : public fs::ByteStream {
 public:
  explicit ShortReads(std::string content) : content_(std::move(content)) {}

  std::size_t read(std::span<char> into, Deadline) override {
    const std::size_t bytes =
        std::min({into.size(), std::size_t{7}, content_.size() - at_});
    std::copy_n(content_.data() + at_, bytes, into.data());
    at_ += bytes;
    return bytes;
  }
  std::string name() const override { return "memory"; }

 private:
  const std::string content_;
  std::size_t at_ = 0;
};

// That its values and texts fill a sample.
void check_sample(const RecordLayout& layout, const std::byte* sample) {
  const RecordView view(layout, sample);
  std::vector<SlotValues> values;
  view.values(values);
  std::size_t bytes =
      layout.values_offset() + view.id().size() + view.content().size();
  for (std::size_t i = 0; i < values.size(); ++i) {
    bytes += values[i].size * layout.slots()[i].value_bytes();
  }
  ASSERT_EQ(bytes, view.bytes());
}

// Returns how many samples a broken file has nevertheless.
std::size_t num_samples(const SampleFormat& format, const std::string& file) {
  Records records;
  is_read([&] {
    const auto source =
        format.open(std::make_unique<ShortReads>(file), std::chrono::hours(1));
    SampleFault fault;
    while (source->next(records, fault) != SampleSource::Step::End) {
    }
  });
  for (std::size_t i = 0; i < records.size(); ++i) {
    check_sample(format.layout(), records[i]);
  }
  return records.size();
}

void fuzz_samples(
    const FormatOptions& options,
    const std::vector<std::string>& corpus,
    std::uint64_t seed,
    std::string (*around)(std::string_view)) {
  const auto format = make_format(
      {{"label", SlotType::Float, {1}}, {"user"}, {"place", SlotType::Id, {2}}},
      options);
  Mutator inputs(corpus, seed);
  std::size_t read = 0;
  for (int i = 0; i < 3'000; ++i) {
    read += num_samples(*format, around(inputs.next()));
  }
  EXPECT_GT(read, 200U);
  EXPECT_LT(read, 2'900 * corpus.size());
}

void fuzz_sample_files(std::uint64_t seed) {
  const auto as_it_is = [](std::string_view text) { return std::string(text); };
  fuzz_samples(
      MultiSlotOptions{.has_id = true, .allow_empty = true},
      {"1 a 1 0.5 2 7 8 2 1 2\n1 b 1 -1e3 0 2 3 4\n"},
      seed,
      as_it_is);
  fuzz_samples(
      CsvOptions{.fields = {.id = "line", .allow_empty = true}},
      {"line,label,user,place\n\"a \"\"1\"\",0.5,7|8,1|2\r\nb,1,,3|4\n",
       "user,line,other,place,label\n3,\"x\ny\",,5|6,1e-3\n"},
      seed,
      as_it_is);
  fuzz_samples(
      JsonLinesOptions{
          .fields = {.id = "line", .allow_empty = true, .hash_words = true}},
      {R"({"line":"a","label":0.5,"user":[7,"x"],"place":[[1],2],"o":{"p":[]}})",
       R"({"place":[3,4],"line":12,"label":-1,"user":null})"},
      seed,
      as_it_is);
  const TfRecordOptions records{
      .fields = {.id = "line", .allow_empty = true, .hash_words = true}};
  const auto examples = read_corpus(kCorpus + "tf_examples.hex", true);
  fuzz_samples(records, examples, seed, observe::framed); // checksums are good
  std::vector<std::string> files;
  for (const std::string& example : examples) {
    files.push_back(observe::framed(example) + observe::framed(examples[0]));
  }
  fuzz_samples(records, files, seed, as_it_is);
}

TEST(Fuzz, SampleFiles) {
  fuzz_sample_files(kFuzzSeed);
}

TEST(Fuzz, Images) {
  fuzz_images(kFuzzSeed);
}

TEST(Fuzz, Tokens) {
  fuzz_tokens(kFuzzSeed);
}

TEST(Fuzz, MegatronIndexes) {
  fuzz_megatron(kFuzzSeed);
}

TEST(Fuzz, Tokenizers) {
  fuzz_tokenizers(kFuzzSeed);
}

TEST(Fuzz, SamplerStates) {
  fuzz_sampler_states(kFuzzSeed);
}

TEST(Fuzz, SoakWithOtherSeeds) {
  fuzz_for(std::chrono::minutes(2), [](std::uint64_t seed) {
    fuzz_images(seed);
    fuzz_tokens(seed);
    fuzz_megatron(seed);
    fuzz_tokenizers(seed);
    fuzz_sampler_states(seed);
    fuzz_sample_files(seed);
  });
}

// Forty tokens, each twice the one before, would take a terabyte.
TEST(Tokenizers, OfTokensThatDoubleAreRefused) {
  std::vector<Tokenizer::Merge> merges = {{'a', 'a'}};
  for (std::int32_t i = 1; i < 40; ++i) {
    merges.emplace_back(255 + i, 255 + i);
  }
  EXPECT_THROW(Tokenizer{merges}, InvalidArgument);
}

} // namespace
} // namespace argosy::data
