#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "argosy/common/environment.h"
#include "argosy/fs/file_system.h"

namespace argosy::fs {

// A path in a file system.
struct Location {
  std::shared_ptr<FileSystem> fs;
  std::string path;
};

// Opens what a URL names. Contacts no server.
//   /path, path, file:///path      local
//   s3://bucket/key                S3
//   webhdfs://[user@]host:port/path, hdfs://[user@]host:port/path
//                                  HDFS over HTTP; swebhdfs:// over HTTPS
// Throws InvalidArgument, showing the URL and what was expected.
Location open(
    std::string_view url,
    const Environment& environment = Environment::of_process());

} // namespace argosy::fs
