#include "argosy/ps/service/messages.h"

#include "argosy/common/error.h"

namespace argosy::ps {

namespace {

void put_section(ByteWriter& out, const Section& section) {
  out.put(section.kind)
      .put(section.table)
      .put(section.count)
      .put(section.width);
}

Section get_section(ByteReader& in) {
  Section section;
  section.kind = in.get<SectionKind>();
  ARGOSY_CHECK(
      section.kind == SectionKind::Sparse || section.kind == SectionKind::Dense,
      "[ps.message] a section of kind {}, expected 0 or 1",
      static_cast<int>(section.kind));
  section.table = in.get<std::uint32_t>();
  section.count = in.get<std::uint64_t>();
  section.width = in.get<std::uint32_t>();
  return section;
}

std::vector<Section> get_sections(ByteReader& in) {
  const std::size_t count = in.count(1 + 4 + 8 + 4);
  ARGOSY_CHECK(
      count <= kMostSections,
      "[ps.message] {} sections, expected at most {}",
      count,
      kMostSections);
  std::vector<Section> sections;
  for (std::size_t i = 0; i < count; ++i) {
    sections.push_back(get_section(in));
  }
  return sections;
}

// Gives out a message's parts one after the other, as elements of one type.
class PartReader {
 public:
  explicit PartReader(const std::vector<rpc::Bytes>& parts) : parts_(parts) {}

  template <typename T>
  std::span<const T> next(std::uint64_t count, std::uint64_t width = 1) {
    ARGOSY_CHECK(
        next_ < parts_.size(),
        "[ps.message] {} parts, expected more",
        parts_.size());
    const rpc::Bytes& part = parts_[next_++];
    const std::uint64_t elements = part.size / sizeof(T);
    ARGOSY_CHECK(
        part.size % sizeof(T) == 0 && width > 0 && elements % width == 0 &&
            elements / width == count,
        "[ps.message] a part of {} bytes, expected {} times {} elements of {}",
        part.size,
        count,
        width,
        sizeof(T));
    return {reinterpret_cast<const T*>(part.data), elements};
  }

  void end() const {
    ARGOSY_CHECK(
        next_ == parts_.size(),
        "[ps.message] {} parts, expected {}",
        parts_.size(),
        next_);
  }

 private:
  const std::vector<rpc::Bytes>& parts_;
  std::size_t next_ = 0;
};

template <typename T>
rpc::Bytes bytes_of(std::span<const T> values) {
  return rpc::Bytes::borrowed(values.data(), values.size_bytes());
}

} // namespace

std::string_view to_string(CommandKind kind) {
  switch (kind) {
    case CommandKind::SetJob:
      return "set_job";
    case CommandKind::CreateTable:
      return "create_table";
    case CommandKind::Push:
      return "push";
    case CommandKind::SetDense:
      return "set_dense";
    case CommandKind::ImportRows:
      return "import_rows";
    case CommandKind::SetDenseState:
      return "set_dense_state";
    case CommandKind::Shrink:
      return "shrink";
    case CommandKind::SaveBegin:
      return "save_begin";
    case CommandKind::SaveEnd:
      return "save_end";
    case CommandKind::Clear:
      return "clear";
    case CommandKind::SetLearningRate:
      return "set_learning_rate";
    case CommandKind::Arrive:
      return "barrier";
    case CommandKind::GeoTake:
      return "geo_take";
    case CommandKind::Leave:
      return "leave";
    case CommandKind::SetRows:
      return "set_rows";
    case CommandKind::Skip:
      return "skip";
  }
  return "unknown";
}

rpc::Message encode(const RowRequest& request) {
  ByteWriter out;
  out.put(request.region)
      .put(request.version)
      .put(request.create)
      .put(static_cast<std::uint32_t>(request.sections.size()));
  rpc::Message message;
  for (const Section& section : request.sections) {
    put_section(out, section);
    if (section.kind == SectionKind::Sparse) {
      message.parts.push_back(bytes_of(section.keys));
    }
  }
  message.head = out.take();
  return message;
}

RowRequest decode_pull(const rpc::Message& message) {
  ByteReader in(message.head, "pull");
  RowRequest request;
  request.region = in.get<std::uint32_t>();
  request.version = in.get<std::int64_t>();
  request.create = in.get<std::uint8_t>() != 0;
  request.sections = get_sections(in);
  in.end();
  PartReader parts(message.parts);
  for (Section& section : request.sections) {
    if (section.kind == SectionKind::Sparse) {
      section.keys = parts.next<std::uint64_t>(section.count);
    }
  }
  parts.end();
  return request;
}

rpc::Message encode(
    const Command& command,
    const std::vector<std::shared_ptr<const void>>& keepers) {
  ByteWriter out;
  out.put(command.kind)
      .put(command.region)
      .put(command.client)
      .put(command.number)
      .put(command.worker)
      .put(command.step)
      .put(command.table)
      .text(command.text)
      .put(static_cast<std::uint32_t>(command.sections.size()));
  rpc::Message message;
  for (const Section& section : command.sections) {
    put_section(out, section);
    if (section.kind == SectionKind::Sparse) {
      message.parts.push_back(bytes_of(section.keys));
    }
    message.parts.push_back(bytes_of(section.values));
  }
  for (std::size_t i = 0; i < keepers.size() && i < message.parts.size(); ++i) {
    message.parts[i].keeper = keepers[i];
  }
  message.head = out.take();
  return message;
}

Command decode_command(rpc::Message message) {
  ByteReader in(message.head, "command");
  Command command;
  command.kind = in.get<CommandKind>();
  ARGOSY_CHECK(
      to_string(command.kind) != "unknown",
      "[ps.message] a command of kind {}, which does not exist",
      static_cast<int>(command.kind));
  command.region = in.get<std::uint32_t>();
  command.client = in.get<std::uint64_t>();
  command.number = in.get<std::uint64_t>();
  command.worker = in.get<std::uint32_t>();
  command.step = in.get<std::int64_t>();
  command.table = in.get<std::uint32_t>();
  command.text = in.text();
  command.sections = get_sections(in);
  in.end();
  PartReader parts(message.parts);
  for (Section& section : command.sections) {
    if (section.kind == SectionKind::Sparse) {
      section.keys = parts.next<std::uint64_t>(section.count);
    }
    section.values = parts.next<float>(section.count, section.width);
  }
  parts.end();
  command.message = std::move(message);
  return command;
}

rpc::Message encode(Reply reply) {
  ByteWriter out;
  out.put(reply.status).put(reply.version).text(reply.text);
  return {out.take(), std::move(reply.parts)};
}

Reply decode_reply(rpc::Message message) {
  ByteReader in(message.head, "reply");
  Reply reply;
  reply.status = in.get<Status>();
  reply.version = in.get<std::int64_t>();
  reply.text = in.text();
  in.end();
  reply.parts = std::move(message.parts);
  return reply;
}

} // namespace argosy::ps
