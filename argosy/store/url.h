#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "argosy/common/net.h"

namespace argosy::store {

enum class Scheme { Tcp, File, Etcd, Mem, C10d };

// The location of a store:
//   tcp://host:port                     one endpoint
//   file:///path                        a path
//   etcd://host:port[,host:port]/prefix endpoints; the prefix is a name
//   etcds://...                         the same over https
//   mem://name                          a name
//   c10d://host:port                    one endpoint, with torch's protocol
// each with an optional `?timeout=30s`; tcp and c10d also with `serve=no`.
struct Url {
  Scheme scheme = Scheme::Mem;
  std::vector<Endpoint> endpoints;
  std::string path;
  std::string name; // of a mem store; key prefix of an etcd store
  std::optional<std::chrono::milliseconds> timeout;
  bool tls = false;              // etcds
  bool served_elsewhere = false; // serve=no: no rank of the job serves it

  bool operator==(const Url&) const = default;
};

// Throws InvalidArgument, showing the URL and the forms above.
Url parse_url(std::string_view text);

} // namespace argosy::store
