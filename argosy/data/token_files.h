#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

#include "argosy/data/tokens.h"

// Files of tokens, mapped into memory. Readers throw SystemError when a file
// cannot be read and InvalidArgument, with file, offset and what was expected,
// when it is not what it should be.
namespace argosy::data {

// Tells the format by the file: Megatron's where an .idx lies beside the .bin
// (megatron.h reads its documents too), llm.c's by its header, else nanoGPT's.
Tokens open_tokens(const std::filesystem::path& path);

// nanoGPT: uint16 without a header.
void write_nanogpt(
    const std::filesystem::path& path, std::span<const std::int64_t> tokens);

// llm.c: 256 int32 of header, then uint16 (GPT-2) or uint32 (Llama 3).
Tokens open_llmc(const std::filesystem::path& path);

} // namespace argosy::data
