#include "argosy/checkpoint/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "argosy/common/file.h"
#include "tests/checkpoint/sample_manifest.h"
#include "tests/support/refusal.h"

namespace argosy::checkpoint {
namespace {

using ::testing::HasSubstr;
using testing::refusal;

TEST(Manifest, GoesBothWays) {
  for (const bool encrypted : {false, true}) {
    const Manifest manifest = sample_manifest(encrypted);
    EXPECT_EQ(parse_manifest(to_text(manifest), "m"), manifest);
  }
  Manifest empty;
  EXPECT_EQ(parse_manifest(to_text(empty), "m"), empty);
}

TEST(Manifest, FindsTensors) {
  const Manifest manifest = sample_manifest();
  for (const TensorRecord& tensor : manifest.tensors) {
    EXPECT_EQ(manifest.find(tensor.info.name), &tensor);
  }
  EXPECT_EQ(manifest.find("model/none"), nullptr);
  EXPECT_EQ(manifest.find("zzz"), nullptr);
  EXPECT_EQ(manifest.tensor_bytes(), 160u + 0 + (5u << 20) * 2 + 8 + 4);
}

TEST(Manifest, RootsLeaveOutWhatIsOfARank) {
  Manifest manifest = sample_manifest();
  const auto root = root_of(manifest);
  ASSERT_TRUE(root.has_value());
  const auto of_rank = std::ranges::find_if(
      manifest.tensors, [](const auto& t) { return is_of_rank(t.info.name); });
  ASSERT_NE(of_rank, manifest.tensors.end());
  of_rank->root.reset();
  EXPECT_EQ(root_of(manifest), root);
  manifest.tensors[0].root = Hash128{7, 8};
  EXPECT_NE(root_of(manifest), root);
  manifest.tensors[0].root.reset();
  EXPECT_EQ(root_of(manifest), std::nullopt);
}

TEST(Manifest, RefusesValuesThatJsonLacks) {
  Manifest manifest = sample_manifest();
  manifest.values["best"] = {{"loss", std::nan("")}};
  EXPECT_THAT(
      refusal([&] { (void)to_text(manifest); }), HasSubstr("values.best.loss"));
  manifest.values["best"] = "\xff";
  EXPECT_THAT(refusal([&] { (void)to_text(manifest); }), HasSubstr("UTF-8"));
}

// The error for a manifest that `change` damaged.
template <typename F>
std::string refusal_after(const F& change, bool encrypted = false) {
  Manifest manifest = sample_manifest(encrypted);
  change(manifest);
  return refusal<CheckpointError>(
      [&] { (void)parse_manifest(to_text(manifest), "dir/manifest.json"); });
}

TEST(Manifest, RefusesWhatDoesNotFitTogether) {
  using M = Manifest;
  EXPECT_EQ(refusal_after([](M&) {}), "");
  EXPECT_THAT(refusal_after([](M& m) { m.version = 2; }), HasSubstr("version"));
  EXPECT_THAT(refusal_after([](M& m) { m.step = -1; }), HasSubstr("step"));
  const auto piece = [](M& m) -> PieceRecord& {
    return m.tensors[0].pieces[0];
  };
  const std::string name = sample_manifest().tensors[0].info.name;
  EXPECT_THAT(
      refusal_after([&](M& m) { piece(m).file = 9; }), HasSubstr("file 9"));
  EXPECT_THAT(refusal_after([&](M& m) { piece(m).file = 9; }), HasSubstr(name));
  EXPECT_THAT(
      refusal_after([&](M& m) { piece(m).offset = 1 << 30; }),
      HasSubstr("inside of rank-0.safetensors"));
  EXPECT_THAT(
      refusal_after([&](M& m) { piece(m).offset = INT64_MAX; }),
      HasSubstr("inside of"));
  EXPECT_THAT(
      refusal_after([&](M& m) { piece(m).hashes.clear(); }),
      HasSubstr("0 hashes"));
  EXPECT_THAT(
      refusal_after([&](M& m) {
        piece(m).tags = {{1, 2}};
      }),
      HasSubstr("1 tags"));
  EXPECT_THAT(
      refusal_after([&](M& m) { piece(m).tags.clear(); }, true),
      HasSubstr("0 tags"));
  EXPECT_THAT(
      refusal_after([&](M& m) { piece(m).box.offset[0] = 9; }),
      HasSubstr("not inside"));
  EXPECT_THAT(
      refusal_after([&](M& m) { piece(m).box.size.pop_back(); }),
      HasSubstr("not inside"));
  EXPECT_THAT(
      refusal_after([&](M& m) { piece(m).box = m.tensors[0].pieces[1].box; }),
      HasSubstr("overlap"));
  EXPECT_THAT(
      refusal_after([&](M& m) { m.tensors[0].pieces.pop_back(); }),
      HasSubstr("lack"));
  EXPECT_THAT(
      refusal_after([](M& m) { std::swap(m.tensors[0], m.tensors[1]); }),
      HasSubstr("ascending"));
  EXPECT_THAT(
      refusal_after([](M& m) { m.tensors[1] = m.tensors[0]; }),
      HasSubstr("ascending"));
  EXPECT_THAT(
      refusal_after([](M& m) { m.files[1] = m.files[0]; }), HasSubstr("twice"));
  EXPECT_THAT(
      refusal_after([](M& m) { m.encryption->algorithm = "ROT13"; }, true),
      HasSubstr("ROT13"));
  for (const char* path :
       {"",
        "/etc/passwd",
        "../x",
        "a/../../b",
        "a//b",
        "./a",
        "a/",
        "manifest.json",
        "a\nb",
        "..\\x"}) {
    EXPECT_THAT(
        refusal_after([&](M& m) { m.files[0].path = path; }),
        HasSubstr("inside of the checkpoint"))
        << path;
  }
  EXPECT_EQ(refusal_after([&](M& m) { m.files[0].path = "a/b.c..d"; }), "");
}

std::string refusal_of(std::string text) {
  return refusal<CheckpointError>(
      [&] { (void)parse_manifest(text, "dir/manifest.json"); });
}

std::string replaced(const std::string& from, const std::string& to) {
  std::string text = to_text(sample_manifest());
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(Manifest, RefusesTextThatIsNoManifest) {
  EXPECT_THAT(refusal_of(""), HasSubstr("dir/manifest.json"));
  EXPECT_THAT(refusal_of("[]"), HasSubstr("expected '{'"));
  EXPECT_THAT(refusal_of("{}"), HasSubstr("\"format\" is missing"));
  EXPECT_THAT(
      refusal_of(to_text(sample_manifest()) + "x"),
      HasSubstr("end of the text"));
  EXPECT_THAT(
      refusal_of(replaced("argosy-checkpoint", "something")),
      HasSubstr("argosy-checkpoint"));
  EXPECT_THAT(
      refusal_of(replaced("\"step\":", "\"step\":1,\"step\":")),
      HasSubstr("step: is there twice"));
  EXPECT_THAT(
      refusal_of(replaced("\"step\":", "\"steps\":")),
      HasSubstr("steps: unknown field"));
  EXPECT_THAT(
      refusal_of(replaced("\"step\":12", "\"step\":1e3")),
      HasSubstr("step: expected an integer"));
  EXPECT_THAT(
      refusal_of(replaced("\"F32\"", "\"F33\"")),
      HasSubstr("tensors[0].dtype"));
  EXPECT_THAT(
      refusal_of(replaced("\"at\":", "\"at\":-")),
      HasSubstr("tensors[0].pieces[0].at"));
  EXPECT_THAT(
      refusal_of(replaced("\"epoch\":3", "\"epoch\":3,\"epoch\":4")),
      HasSubstr("twice"));
  EXPECT_THAT(
      refusal_of(replaced("\"epoch\":3", "\"epoch\":1e999")),
      HasSubstr("values"));
  EXPECT_THAT(
      refusal_of(replaced("\"epoch\":3", "\"epoch\":tru")),
      HasSubstr("values"));
  EXPECT_THAT(
      refusal_of(replaced("\"epoch\":3", "\"epoch\":" + std::string(100, '['))),
      HasSubstr("levels"));
}

// Digits that are changed leave a manifest that is one, but another.
TEST(Manifest, RefusesTextThatWasChanged) {
  for (const auto& [from, to] :
       std::vector<std::pair<std::string, std::string>>{
           {"\"epoch\":3", "\"epoch\":7"},
           {"\"step\":12", "\"step\":13"},
           {"\"ranks\":2", "\"ranks\":3"}}) {
    EXPECT_THAT(
        refusal_of(replaced(from, to)), HasSubstr("the text is damaged"));
  }
  const std::string hash = kManifestHashField;
  std::string text = to_text(sample_manifest());
  const std::size_t at = text.find(hash) + hash.size();
  text[at] = text[at] == '0' ? '1' : '0';
  EXPECT_THAT(refusal_of(text), HasSubstr("the text is damaged"));
  EXPECT_THAT(
      refusal_of(replaced(hash, ",\"hash\":\"")),
      HasSubstr("expected it last"));
  // Written by hand, without a hash.
  text.erase(text.find(hash));
  EXPECT_EQ(refusal_of(text + '}'), "");
}

// The first JSON block below "## Example" of the page about the format.
std::string example_of_the_page() {
  const auto page = read_file(
      std::filesystem::path(ARGOSY_SOURCE_DIR) / "docs/checkpoint-format.md");
  const std::string begin = "```json\n";
  const std::size_t at =
      page.value().find(begin, page->find("## Example")) + begin.size();
  return page->substr(at, page->find("```", at) - at);
}

TEST(Manifest, ThePageHasATrueExample) {
  const std::string text = example_of_the_page();
  const Manifest manifest = parse_manifest(text, "docs/checkpoint-format.md");
  EXPECT_EQ(to_text(manifest), text);
  const std::vector<float> values = {0, 1, 2, 3, 4, 5};
  const TensorRecord& tensor = manifest.tensors.at(0);
  BlockSums sums(tensor.info);
  for (const PieceRecord& piece : tensor.pieces) {
    const float* data = values.data() + 3 * piece.box.offset[0];
    sums.add(piece.box, 0, 3, data);
    const Hash128 hash = hash_bytes(std::as_bytes(std::span(data, 3)));
    EXPECT_EQ(to_hex(piece.hashes.at(0)), to_hex(hash));
  }
  EXPECT_EQ(to_hex(tensor.root.value()), to_hex(sums.root()));
  EXPECT_EQ(
      to_hex(manifest.root.value()),
      to_hex(root_of({{tensor.info.name, sums.root()}})));
}

} // namespace
} // namespace argosy::checkpoint
