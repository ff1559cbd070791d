#include "argosy/fs/open.h"

#include "argosy/fs/local.h"

namespace argosy::fs {

namespace {

[[noreturn]] void refuse_url(std::string_view url, std::string_view what) {
  throw InvalidArgument(
      str("[fs.open] ",
          url,
          ": ",
          what,
          "; expected a path, file:///path, s3://bucket/key, "
          "webhdfs://host:port/path or hdfs://host:port/path"));
}

Location open_local(std::string_view url, std::string_view path) {
  if (path.empty()) {
    refuse_url(url, "no path");
  }
  return {std::make_shared<LocalFileSystem>(), std::string(path)};
}

} // namespace

Location open(std::string_view url, const Environment&) {
  const std::size_t colon = url.find("://");
  if (colon == url.npos) {
    return open_local(url, url);
  }
  const std::string_view scheme = url.substr(0, colon);
  const std::string_view rest = url.substr(colon + 3);
  if (scheme == "file") {
    if (!rest.starts_with('/')) {
      refuse_url(url, "the path is not absolute");
    }
    return open_local(url, rest);
  }
  refuse_url(url, str("unknown scheme ", scheme));
}

} // namespace argosy::fs
