#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

#include "argosy/data/tokens.h"

// Memory-mapped token files. Readers throw SystemError when a file cannot be
// read, and InvalidArgument, with file, offset and what was expected, when its
// contents are invalid.
namespace argosy::data {

// Detects the format: Megatron if there is an .idx beside the .bin (use
// MegatronFile to read its documents), llm.c by its header, else nanoGPT.
Tokens open_tokens(const std::filesystem::path& path);

// nanoGPT: uint16, no header.
void write_nanogpt(
    const std::filesystem::path& path, std::span<const std::int64_t> tokens);

// llm.c: a header of 256 int32, then uint16 (GPT-2) or uint32 (Llama 3).
Tokens open_llmc(const std::filesystem::path& path);

} // namespace argosy::data
