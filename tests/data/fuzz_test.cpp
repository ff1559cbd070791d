// Broken files of images, tokens, tokenizers and sampler states. A reader may
// refuse a file by an error of ours, and must do nothing else: what it returns
// lies inside of the file.
#include <gtest/gtest.h>
#include <zlib.h>

#include "argosy/data/idx.h"
#include "argosy/data/megatron_file.h"
#include "argosy/data/sampler.h"
#include "argosy/data/token_files.h"
#include "argosy/data/tokenizer.h"
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
