#include "argosy/heap/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <mutex>
#include <random>
#include <utility>

#include "argosy/common/error.h"
#include "argosy/common/file.h"
#include "argosy/common/text.h"

namespace argosy::heap {

namespace {

std::shared_ptr<std::byte> map_memory(int fd, std::size_t bytes) {
  void* memory =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) {
    throw SystemError(with_errno("[heap] mmap"));
  }
  // Takes effect only if the administrator enabled huge pages for shared
  // memory.
  ::madvise(memory, bytes, MADV_HUGEPAGE);
  return {static_cast<std::byte*>(memory), [bytes](std::byte* mapped) {
            ::munmap(mapped, bytes);
          }};
}

// Open mappings of this process by description, so that its threads find each
// other's.
class OwnMappings {
 public:
  void add(const std::string& name, const std::shared_ptr<std::byte>& memory) {
    const std::lock_guard lock(mutex_);
    memories_[name] = memory;
  }
  void remove(const std::string& name) {
    const std::lock_guard lock(mutex_);
    memories_.erase(name);
  }
  std::shared_ptr<std::byte> find(const std::string& name) {
    const std::lock_guard lock(mutex_);
    const auto found = memories_.find(name);
    return found == memories_.end() ? nullptr : found->second.lock();
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::weak_ptr<std::byte>>
      memories_; // guarded by mutex_
};

OwnMappings& own_mappings() {
  static OwnMappings mappings;
  return mappings;
}

std::string random_text() {
  std::random_device device;
  return str(std::hex, device(), device());
}

// A name that /proc shows for the region. It prevents mistaking another region
// for it: in another PID namespace, the owner's pid may belong to another
// process.
std::string region_name(const std::string& process) {
  return str("argosy-region-", split(process, '/')[1]);
}

} // namespace

const std::string& own_process() {
  // The boot id distinguishes hosts, the random text processes.
  static const std::string identity =
      str(trim(read_file("/proc/sys/kernel/random/boot_id").value_or("?")),
          "/",
          random_text());
  return identity;
}

SharedMemory SharedMemory::create(std::size_t bytes) {
  SharedMemory made;
  made.fd_ = ::memfd_create(region_name(own_process()).c_str(), MFD_CLOEXEC);
  if (made.fd_ < 0 || ::ftruncate(made.fd_, static_cast<off_t>(bytes)) != 0) {
    throw SystemError(with_errno("[heap] memfd"));
  }
  made.memory_ = map_memory(made.fd_, bytes);
  made.owner_ = ::getpid();
  made.process_ = own_process();
  own_mappings().add(made.description(), made.memory_);
  return made;
}

std::string SharedMemory::description() const {
  return str(owner_, " ", fd_, " ", process_);
}

// A memfd has no name in a file system. Another process reaches it through the
// owner's /proc/<pid>/fd/<fd>, which works only while the owner keeps the
// descriptor open: hence close_way_in() after all peers have mapped it.
SharedMemory SharedMemory::open(
    const std::string& description, std::size_t bytes) {
  const auto words = split(description, ' ');
  ARGOSY_ASSERT(words.size() == 3, description);
  SharedMemory opened;
  opened.owner_ = static_cast<pid_t>(parse_int(words[0]).value_or(-1));
  opened.process_ = words[2];
  if (opened.same_process()) {
    opened.memory_ = own_mappings().find(description);
    ARGOSY_ASSERT(opened.memory_ != nullptr, description);
    return opened;
  }
  const std::string boot = split(words[2], '/')[0];
  if (boot != split(own_process(), '/')[0]) {
    throw SystemError("[heap] the other rank is on another host");
  }
  const std::string path = str("/proc/", words[0], "/fd/", words[1]);
  std::error_code ignored;
  const auto shown = std::filesystem::read_symlink(path, ignored).string();
  if (shown.find(region_name(words[2])) == std::string::npos) {
    throw SystemError(str("[heap] ", path, " is not the other rank's"));
  }
  opened.fd_ = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (opened.fd_ < 0) {
    throw SystemError(with_errno(str("[heap] ", path)));
  }
  opened.memory_ = map_memory(opened.fd_, bytes);
  opened.close_way_in();
  return opened;
}

SharedMemory::SharedMemory(SharedMemory&& other) noexcept
    : memory_(std::move(other.memory_)),
      fd_(std::exchange(other.fd_, -1)),
      owner_(other.owner_),
      process_(std::move(other.process_)) {}

SharedMemory::~SharedMemory() {
  close_way_in();
}

void SharedMemory::close_way_in() {
  if (fd_ >= 0) {
    own_mappings().remove(description());
    ::close(std::exchange(fd_, -1));
  }
}

bool SharedMemory::same_process() const {
  return process_ == own_process();
}

} // namespace argosy::heap
