// Changed files of torch.save: each is refused or read, and nothing else
// happens. The limit on the address space turns a large allocation into a
// failure.

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <functional>
#include <random>

#include "argosy/checkpoint/import/state_tree.h"
#include "argosy/checkpoint/import/torch_file.h"
#include "argosy/checkpoint/import/unpickler.h"
#include "argosy/checkpoint/import/zip_reader.h"
#include "argosy/common/error.h"
#include "argosy/common/file.h"
#include "tests/support/sanitized.h"

namespace argosy::checkpoint {
namespace {

const std::string kData = ARGOSY_SOURCE_DIR "/tests/checkpoint/data/";
constexpr int kMutations = 34'000; // of each of three files

// Changes a few bytes, moves a part, or cuts the end.
std::string mutated(const std::string& bytes, std::mt19937& random) {
  const auto below = [&random](std::size_t limit) {
    return std::uniform_int_distribution<std::size_t>(0, limit - 1)(random);
  };
  std::string changed = bytes;
  const std::size_t kind = below(10);
  if (kind == 0) {
    changed.resize(below(changed.size()) + 1);
  } else if (kind == 1) {
    const std::size_t from = below(changed.size());
    changed.insert(below(changed.size()), changed.substr(from, below(64) + 1));
  } else if (kind == 2) {
    changed.erase(below(changed.size()), below(16) + 1);
  }
  for (std::size_t i = 0; i < below(4) + 1 && !changed.empty(); ++i) {
    changed[below(changed.size())] = static_cast<char>(below(256));
  }
  return changed;
}

struct Outcomes {
  int read = 0;
  int refused = 0;
};

Outcomes fuzz(
    const std::string& bytes,
    const std::function<void(const std::string&)>& parse) {
  std::mt19937 random(1);
  Outcomes outcomes;
  for (int i = 0; i < kMutations; ++i) {
    try {
      parse(mutated(bytes, random));
      ++outcomes.read;
    } catch (const CheckpointError&) {
      ++outcomes.refused;
    }
  }
  return outcomes;
}

std::string pickle_of(const std::string& path) {
  const Source file = open_source(path);
  const ZipReader zip(file);
  for (const ZipEntry& entry : zip.entries()) {
    if (entry.name.find("data.pkl") != std::string::npos) {
      return zip.open_verified(entry)->read_all(1 << 20);
    }
  }
  return "";
}

class ImportFuzz : public ::testing::Test {
 protected:
  void SetUp() override {
    ::getrlimit(RLIMIT_AS, &before_);
    rlimit limit = before_;
    if (!argosy::testing::kIsSanitized) {
      limit.rlim_cur = rlim_t{2} << 30;
    }
    ASSERT_EQ(::setrlimit(RLIMIT_AS, &limit), 0);
  }
  void TearDown() override { ::setrlimit(RLIMIT_AS, &before_); }

  rlimit before_{};
};

TEST_F(ImportFuzz, PicklesAreReadOrRefused) {
  const Outcomes torch =
      fuzz(pickle_of(kData + "state_dict.pt"), [](const std::string& bytes) {
        const Pickle pickle = unpickle(source_of_bytes(bytes, "fuzz"));
        state_tree(*pickle.root);
      });
  EXPECT_GT(torch.read, kMutations / 50);
  EXPECT_GT(torch.refused, kMutations / 5);
  const Outcomes dcp =
      fuzz(*read_file(kData + "dcp/.metadata"), [](const std::string& bytes) {
        const Pickle pickle = unpickle(source_of_bytes(bytes, "fuzz"));
        to_json(*pickle.root);
      });
  EXPECT_GT(dcp.read, kMutations / 50);
  EXPECT_GT(dcp.refused, kMutations / 5);
}

TEST_F(ImportFuzz, ZipFilesAreReadOrRefused) {
  const auto parse = [](const std::string& bytes) {
    TorchFile file(source_of_bytes(bytes, "fuzz"));
    for (const TreeTensor& tensor : state_tree(file.root()).tensors) {
      file.storage(tensor.tensor)->read_all(1 << 20);
    }
  };
  const Outcomes outcomes = fuzz(*read_file(kData + "state_dict.pt"), parse);
  EXPECT_GT(outcomes.read, kMutations / 50);
  EXPECT_GT(outcomes.refused, kMutations / 5);
}

} // namespace
} // namespace argosy::checkpoint
