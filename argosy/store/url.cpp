#include "argosy/store/url.h"

#include "argosy/common/error.h"
#include "argosy/common/text.h"

namespace argosy::store {

namespace {

constexpr std::string_view kForms =
    "expected tcp://host:port, file:///path, "
    "etcd://host:port[,host:port]/prefix (etcds:// for https), mem://name or "
    "c10d://host:port, and optionally ?timeout=30s";

constexpr std::string_view kDefaultPrefix = "argosy";

struct Parts {
  std::string_view whole;
  std::string_view rest; // between :// and ?

  [[noreturn]] void fail(std::string_view what) const {
    throw InvalidArgument(str("[store.url] ", whole, ": ", what, "; ", kForms));
  }

  void require(bool condition, std::string_view what) const {
    if (!condition) {
      fail(what);
    }
  }
};

Scheme parse_scheme(const Parts& parts, std::string_view name) {
  // In the order of Scheme.
  const std::vector<std::string> names = {"tcp", "file", "etcd", "mem", "c10d"};
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] == name) {
      return static_cast<Scheme>(i);
    }
  }
  const auto meant = nearest(name, names);
  parts.fail(
      str("unknown scheme ",
          name,
          meant ? str(", did you mean ", *meant) : std::string()));
}

std::vector<Endpoint> parse_endpoints(
    const Parts& parts, std::string_view text) {
  std::vector<Endpoint> endpoints;
  for (const std::string& each : split(text, ',')) {
    try {
      endpoints.push_back(parse_endpoint(each, "endpoint"));
    } catch (const InvalidArgument& error) {
      parts.fail(error.what());
    }
  }
  parts.require(!endpoints.empty(), "no host:port");
  return endpoints;
}

void parse_tcp(const Parts& parts, Url& url) {
  std::string_view rest = parts.rest;
  if (rest.ends_with('/')) {
    rest.remove_suffix(1);
  }
  parts.require(rest.find('/') == rest.npos, "a path, where tcp has none");
  url.endpoints = parse_endpoints(parts, rest);
  parts.require(
      url.endpoints.size() == 1, "several endpoints, where tcp has one");
}

void parse_file(const Parts& parts, Url& url) {
  parts.require(parts.rest.starts_with('/'), "the path is not absolute");
  parts.require(!parts.rest.ends_with('/'), "the path names a folder");
  url.path = parts.rest;
}

void parse_etcd(const Parts& parts, Url& url) {
  const std::size_t slash = parts.rest.find('/');
  url.endpoints = parse_endpoints(parts, parts.rest.substr(0, slash));
  std::string_view prefix =
      slash == parts.rest.npos ? "" : parts.rest.substr(slash + 1);
  while (prefix.ends_with('/')) {
    prefix.remove_suffix(1);
  }
  url.name = prefix.empty() ? kDefaultPrefix : prefix;
}

void parse_options(const Parts& parts, std::string_view query, Url& url) {
  for (const std::string& option : split(query, '&')) {
    const std::size_t equals = option.find('=');
    const std::string name = option.substr(0, equals);
    if (option == "serve=no" &&
        (url.scheme == Scheme::Tcp || url.scheme == Scheme::C10d)) {
      url.served_elsewhere = true;
      continue;
    }
    parts.require(name == "timeout", str("unknown option '", name, "'"));
    const auto seconds = equals == std::string::npos
        ? std::nullopt
        : parse_seconds(std::string_view(option).substr(equals + 1));
    parts.require(
        seconds && *seconds > 0 && *seconds < 1e9,
        "timeout is no positive time");
    url.timeout = std::chrono::ceil<std::chrono::milliseconds>(
        std::chrono::duration<double>(*seconds));
  }
}

} // namespace

Url parse_url(std::string_view text) {
  // A password must not get into messages, and not onto command lines either.
  ARGOSY_CHECK(
      text.find('@') == text.npos || text.starts_with("file:"),
      "[store.url] a URL holds a user (@), expected ARGOSY_ETCD_USER and "
      "ARGOSY_ETCD_PASSWORD_FILE instead");
  Parts parts{text, {}};
  const std::size_t colon = text.find("://");
  parts.require(colon != text.npos, "no scheme");
  const std::size_t query = text.find('?', colon);
  parts.rest = text.substr(0, query).substr(colon + 3);
  Url url;
  const std::string_view scheme = text.substr(0, colon);
  url.tls = scheme == "etcds";
  url.scheme = url.tls ? Scheme::Etcd : parse_scheme(parts, scheme);
  switch (url.scheme) {
    case Scheme::Tcp:
    case Scheme::C10d:
      parse_tcp(parts, url);
      break;
    case Scheme::File:
      parse_file(parts, url);
      break;
    case Scheme::Etcd:
      parse_etcd(parts, url);
      break;
    case Scheme::Mem:
      parts.require(!parts.rest.empty(), "no name");
      url.name = parts.rest;
      break;
  }
  if (query != text.npos) {
    parse_options(parts, text.substr(query + 1), url);
  }
  return url;
}

} // namespace argosy::store
