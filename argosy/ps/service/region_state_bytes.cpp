// A region's state as bytes, but for the rows of sparse tables.

#include <utility>

#include "argosy/ps/service/bytes.h"
#include "argosy/ps/service/region_state.h"

namespace argosy::ps {

std::string RegionState::save_header() {
  ByteWriter out;
  out.put(has_job_).text(encode(job_)).put(version_);
  sequences_.save(out);
  std::uint32_t num_pushes = 0;
  for (const auto& [step, pushes] : pending_) {
    num_pushes += static_cast<std::uint32_t>(pushes.size());
  }
  out.put(num_pushes);
  for (const auto& [step, pushes] : pending_) {
    for (const auto& [worker, command] : pushes) {
      out.text(command.message.head);
      out.put(static_cast<std::uint32_t>(command.message.parts.size()));
      for (const rpc::Bytes& part : command.message.parts) {
        out.text(part.text());
      }
    }
  }
  out.put(static_cast<std::uint32_t>(left_.size()));
  for (const auto& [worker, first] : left_) {
    out.put(worker).put(first);
  }
  out.put(static_cast<std::uint32_t>(barriers_.size()));
  for (const auto& [name, generations] : barriers_) {
    out.text(name).put(static_cast<std::uint32_t>(generations.size()));
    for (const std::int64_t generation : generations) {
      out.put(generation);
    }
  }
  tables_.save_header(out);
  return out.take();
}

void RegionState::load_header(std::string_view bytes) {
  ByteReader in(bytes, "state");
  has_job_ = in.get<std::uint8_t>() != 0;
  job_ = decode_job(in.text());
  version_ = in.get<std::int64_t>();
  sequences_.load(in);
  pending_.clear();
  for (std::size_t i = in.count(8); i > 0; --i) {
    rpc::Message message{.head = in.text()};
    for (std::size_t p = in.count(4); p > 0; --p) {
      message.parts.push_back(rpc::Bytes::owned(in.text()));
    }
    Command command = decode_command(std::move(message));
    pending_[command.step][command.worker] = std::move(command);
  }
  left_.clear();
  for (std::size_t i = in.count(12); i > 0; --i) {
    const auto worker = in.get<std::uint32_t>();
    left_[worker] = in.get<std::int64_t>();
  }
  barriers_.clear();
  for (std::size_t i = in.count(8); i > 0; --i) {
    auto& generations = barriers_[in.text()];
    for (std::size_t w = in.count(8); w > 0; --w) {
      generations.push_back(in.get<std::int64_t>());
    }
  }
  tables_.load_header(in, job_);
  in.end();
}

} // namespace argosy::ps
