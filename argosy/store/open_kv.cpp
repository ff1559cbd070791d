#include "argosy/store/open_kv.h"

#include "argosy/common/error.h"
#include "argosy/store/etcd_kv.h"
#include "argosy/store/mem_kv.h"
#include "argosy/store/tcp_kv.h"
#include "argosy/store/url.h"

namespace argosy::store {

std::shared_ptr<Kv> open_kv(
    const std::string& url, Deadline deadline, const Credentials& credentials) {
  const Url place = parse_url(url);
  const Deadline limit =
      place.timeout ? deadline.earlier(*place.timeout) : deadline;
  switch (place.scheme) {
    case Scheme::Mem:
      return MemKv::named(place.name);
    case Scheme::Tcp:
      return std::make_shared<TcpKv>(
          place.endpoints.front(),
          limit,
          TcpKvOptions{.credentials = credentials});
    case Scheme::Etcd: {
      auto kv = std::make_shared<EtcdKv>(
          place.endpoints,
          place.name,
          EtcdAccess{place.tls, credentials.tls, credentials.etcd});
      kv->ping(limit);
      return kv;
    }
    case Scheme::File:
    case Scheme::C10d:
      break;
  }
  throw InvalidArgument(str_format(
      "[store.open] {} has no leases, expected tcp://, etcd:// or mem://",
      url));
}

} // namespace argosy::store
