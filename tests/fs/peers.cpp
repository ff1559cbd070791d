#include "tests/fs/peers.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "argosy/common/error.h"
#include "argosy/common/file.h"

namespace argosy::testing {

namespace {

int count_leftovers(const std::filesystem::path& folder) {
  int count = 0;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(folder)) {
    const std::string path = entry.path().string();
    count += path.ends_with("argosy-partial") ? 1 : 0;
    count += path.find("_S3rver_uploads/") != std::string::npos ? 1 : 0;
  }
  return count;
}

// A server of tests/peers, which prints its port when it is ready. It ends
// with this object, or with the thread that started it.
class NodeServer {
 public:
  NodeServer(const std::string& script, std::vector<std::string> arguments) {
    const std::string folder = str(ARGOSY_SOURCE_DIR, "/tests/peers");
    if (!std::filesystem::exists(folder + "/node_modules")) {
      throw SystemError(
          "tests/peers/node_modules is missing: run tools/setup tests");
    }
    std::vector<std::string> command = {
        "setpriv",
        "--pdeathsig",
        "KILL",
        "--",
        "node",
        "--openssl-legacy-provider", // s3rver's tokens are DES
        folder + "/" + script};
    command.insert(command.end(), arguments.begin(), arguments.end());
    start(command);
  }

  ~NodeServer() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    ::close(output_);
  }

  std::uint16_t port() const { return port_; }

 private:
  void start(const std::vector<std::string>& command) {
    std::vector<char*> argv;
    for (const std::string& argument : command) {
      argv.push_back(const_cast<char*>(argument.c_str()));
    }
    argv.push_back(nullptr);
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) {
      throw SystemError(with_errno("pipe"));
    }
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    const int error =
        ::posix_spawnp(&pid_, argv[0], &actions, nullptr, argv.data(), environ);
    ::posix_spawn_file_actions_destroy(&actions);
    ::close(ends[1]);
    output_ = ends[0];
    if (error != 0) {
      throw SystemError(str("cannot start ", command[0], ": error ", error));
    }
    read_port(command.back());
  }

  void read_port(const std::string& what) {
    const auto deadline = Deadline::after(std::chrono::seconds(30));
    std::string line;
    while (!line.ends_with('\n')) {
      pollfd entry{output_, POLLIN, 0};
      ::poll(&entry, 1, static_cast<int>(deadline.remaining().count()));
      char c = 0;
      if (deadline.expired() || ::read(output_, &c, 1) != 1) {
        throw SystemError(str("node did not start: ", what, " ", line));
      }
      line += c;
    }
    port_ = static_cast<std::uint16_t>(std::stoi(line));
  }

  pid_t pid_ = -1;
  int output_ = -1;
  std::uint16_t port_ = 0;
};

class LocalPeer : public Peer {
 public:
  std::string new_folder() override {
    return (folder_.path() / str("test", next_++)).string();
  }
  int num_leftovers() const override { return count_leftovers(folder_.path()); }

 private:
  TempDir folder_;
  int next_ = 0;
};

class ServerPeer : public Peer {
 public:
  int num_leftovers() const override { return count_leftovers(folder_.path()); }
  FaultProxy& faults() override { return proxy_; }

 protected:
  TempDir folder_;
  FaultProxy proxy_;
  int next_ = 0;
};

class HdfsPeer : public ServerPeer {
 public:
  explicit HdfsPeer(const std::vector<std::string>& flags) {
    std::vector<std::string> arguments = {
        folder_.path().string(), std::to_string(proxy_.port())};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    server_ = std::make_unique<NodeServer>("webhdfs.js", arguments);
    proxy_.set_server(server_->port());
  }

  std::string new_folder() override {
    return str("webhdfs://127.0.0.1:", proxy_.port(), "/test/", next_++);
  }
  Environment environment() const override {
    return {{"ARGOSY_FS_PART", "1"}, {"ARGOSY_FS_STALL", "1"}};
  }

 private:
  std::unique_ptr<NodeServer> server_;
};

class S3Peer : public ServerPeer {
 public:
  S3Peer() : server_("s3.js", {folder_.path().string(), "bucket"}) {
    proxy_.set_server(server_.port());
  }

  std::string new_folder() override {
    return str("s3://bucket/test/", next_++);
  }
  Environment environment() const override {
    return {
        {"AWS_ENDPOINT_URL", str("http://127.0.0.1:", proxy_.port())},
        {"AWS_ACCESS_KEY_ID", "S3RVER"},
        {"AWS_SECRET_ACCESS_KEY", "S3RVER"},
        {"AWS_REGION", "eu-west-1"},
        {"ARGOSY_FS_PART", "1"},
        {"ARGOSY_FS_STALL", "1"}};
  }

 private:
  NodeServer server_;
};

// Without faults on the way.
class TlsPeer : public Peer {
 public:
  int num_leftovers() const override { return count_leftovers(folder_.path()); }

 protected:
  TempDir folder_;
  std::unique_ptr<NodeServer> server_;
  int next_ = 0;
};

class TlsHdfsPeer : public TlsPeer {
 public:
  explicit TlsHdfsPeer(const TlsFiles& files) : authority_(files.authority) {
    server_ = std::make_unique<NodeServer>(
        "webhdfs.js",
        std::vector<std::string>{
            folder_.path().string(),
            "0",
            "--tls",
            files.key,
            files.certificate});
  }

  std::string new_folder() override {
    return str("swebhdfs://127.0.0.1:", server_->port(), "/test/", next_++);
  }
  Environment environment() const override {
    return {{"ARGOSY_FS_PART", "1"}, {"ARGOSY_FS_CA", authority_}};
  }

 private:
  const std::string authority_;
};

class TlsS3Peer : public TlsPeer {
 public:
  explicit TlsS3Peer(const TlsFiles& files) : authority_(files.authority) {
    server_ = std::make_unique<NodeServer>(
        "s3.js",
        std::vector<std::string>{
            folder_.path().string(), "bucket", files.key, files.certificate});
  }

  std::string new_folder() override {
    return str("s3://bucket/test/", next_++);
  }
  Environment environment() const override {
    return {
        {"AWS_ENDPOINT_URL", str("https://127.0.0.1:", server_->port())},
        {"AWS_ACCESS_KEY_ID", "S3RVER"},
        {"AWS_SECRET_ACCESS_KEY", "S3RVER"},
        {"AWS_REGION", "eu-west-1"},
        {"AWS_CA_BUNDLE", authority_},
        {"ARGOSY_FS_PART", "1"}};
  }

 private:
  const std::string authority_;
};

} // namespace

std::unique_ptr<Peer> make_tls_peer(PeerKind kind, const TlsFiles& files) {
  if (kind == PeerKind::S3) {
    return std::make_unique<TlsS3Peer>(files);
  }
  return std::make_unique<TlsHdfsPeer>(files);
}

std::string peer_name(PeerKind kind) {
  switch (kind) {
    case PeerKind::Local:
      return "Local";
    case PeerKind::WebHdfs:
      return "WebHdfs";
    case PeerKind::PlainWebHdfs:
      return "PlainWebHdfs";
    case PeerKind::S3:
      return "S3";
  }
  return "";
}

Peer& shared_peer(PeerKind kind) {
  switch (kind) {
    case PeerKind::Local: {
      static LocalPeer peer;
      return peer;
    }
    case PeerKind::WebHdfs: {
      static HdfsPeer peer({});
      return peer;
    }
    case PeerKind::PlainWebHdfs: {
      static HdfsPeer peer({"--no-replace"});
      return peer;
    }
    case PeerKind::S3:
      break;
  }
  static S3Peer peer;
  return peer;
}

} // namespace argosy::testing
