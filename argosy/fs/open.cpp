#include "argosy/fs/open.h"

#include "argosy/common/net.h"
#include "argosy/common/text.h"
#include "argosy/fs/local.h"
#include "argosy/fs/s3.h"
#include "argosy/fs/webhdfs.h"

namespace argosy::fs {

namespace {

constexpr int kNamenodeHttpPort = 9870;
constexpr int kNamenodeHttpsPort = 9871;

// A URL, for its error messages too.
struct UrlParts {
  std::string_view whole;
  std::string_view scheme;
  std::string_view rest; // after "://"

  [[noreturn]] void refuse(std::string_view what) const {
    throw InvalidArgument(
        str("[fs.open] ",
            whole,
            ": ",
            what,
            "; expected a path, file:///path, s3://bucket/key, "
            "webhdfs://host:port/path or hdfs://host:port/path"));
  }
};

Location open_local(const UrlParts& url, std::string_view path) {
  if (path.empty()) {
    url.refuse("no path");
  }
  return {std::make_shared<LocalFileSystem>(), std::string(path)};
}

Location open_s3(const UrlParts& url, const Environment& environment) {
  const std::size_t slash = url.rest.find('/');
  const std::string bucket(url.rest.substr(0, slash));
  if (bucket.empty()) {
    url.refuse("no bucket");
  }
  std::string_view key =
      slash == url.rest.npos ? "" : url.rest.substr(slash + 1);
  while (key.ends_with('/')) { // a folder
    key.remove_suffix(1);
  }
  return {
      std::make_shared<S3>(s3_address(bucket, environment), environment),
      std::string(key)};
}

// hdfs:// URLs often have the port of Hadoop's own protocol.
void check_hdfs_port(const UrlParts& url, const Endpoint& endpoint) {
  if (url.scheme == "hdfs" &&
      (endpoint.port == 8020 || endpoint.port == 9000)) {
    url.refuse(
        str("port ",
            endpoint.port,
            " is that of Hadoop's own protocol, and Argosy speaks WebHDFS: use "
            "the HTTP port, usually ",
            kNamenodeHttpPort,
            ", or webhdfs:// if this is it"));
  }
}

Location open_hdfs(const UrlParts& url, const Environment& environment) {
  const std::size_t slash = url.rest.find('/');
  std::string_view host = url.rest.substr(0, slash);
  WebHdfsAddress address{.user = environment.get("HADOOP_USER_NAME", "")};
  if (const std::size_t at = host.find('@'); at != host.npos) {
    address.user = host.substr(0, at);
    host.remove_prefix(at + 1);
  }
  if (address.user.empty()) {
    address.user = environment.get("USER", "argosy");
  }
  const bool is_secure = url.scheme == "swebhdfs";
  Endpoint endpoint;
  try {
    endpoint = parse_endpoint(
        host, "host:port", is_secure ? kNamenodeHttpsPort : kNamenodeHttpPort);
  } catch (const InvalidArgument& error) {
    url.refuse(error.what());
  }
  check_hdfs_port(url, endpoint);
  address.http = str(is_secure ? "https://" : "http://", endpoint.text());
  address.root = str(url.scheme, "://", endpoint.text());
  return {
      std::make_shared<WebHdfs>(std::move(address), environment),
      std::string(slash == url.rest.npos ? "/" : url.rest.substr(slash))};
}

} // namespace

Location open(std::string_view text, const Environment& environment) {
  const std::size_t colon = text.find("://");
  if (colon == text.npos) {
    return open_local({text, {}, text}, text);
  }
  const UrlParts url{text, text.substr(0, colon), text.substr(colon + 3)};
  if (url.scheme == "file") {
    if (!url.rest.starts_with('/')) {
      url.refuse("the path is not absolute");
    }
    return open_local(url, url.rest);
  }
  if (url.scheme == "s3") {
    return open_s3(url, environment);
  }
  if (url.scheme == "hdfs" || url.scheme == "webhdfs" ||
      url.scheme == "swebhdfs") {
    return open_hdfs(url, environment);
  }
  const auto meant =
      nearest(url.scheme, {"file", "s3", "hdfs", "webhdfs", "swebhdfs"});
  url.refuse(
      str("unknown scheme ",
          url.scheme,
          meant ? str(", did you mean ", *meant) : std::string()));
}

} // namespace argosy::fs
