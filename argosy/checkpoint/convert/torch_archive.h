#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "argosy/checkpoint/convert/copy.h"
#include "argosy/checkpoint/convert/zip_writer.h"

namespace argosy::checkpoint {

// Appends what torch.save writes: a pickle, and the storages that `add` adds.
// Returns the number of bytes.
std::uint64_t write_archive(
    fs::Writer& out,
    const std::string& pickle,
    const std::function<void(ZipWriter&)>& add);

// A tensor's storage with this key, row-major.
void add_storage(
    ZipWriter& zip,
    const std::string& key,
    const SourceTensor& tensor,
    ChunkCopier& copier);

} // namespace argosy::checkpoint
