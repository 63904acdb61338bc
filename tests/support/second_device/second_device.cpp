// A pretended accelerator. Its memory is the host's and PyTorch's CPU kernels do the work, but what
// a real accelerator refuses is refused here as well: tensors of two devices in one operation, and
// a generator of the CPU for numbers that are drawn on the device. PyTorch keeps the dispatch key
// PrivateUse1 free for backends of this kind.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/resize_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

namespace {

using at::Generator;
using at::Tensor;
using c10::Device;
using c10::IValue;
using c10::Stream;

constexpr auto kType = c10::DeviceType::PrivateUse1;
bool float64_allowed = true;

Device the_device() { return Device(kType, 0); }
bool is_here(const Tensor& tensor) { return tensor.defined() && tensor.device().type() == kType; }

// ---- memory

struct HostMemory final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    c10::DataPtr memory = c10::GetCPUAllocator()->allocate(bytes);
    memory.unsafe_set_device(the_device());
    return memory;
  }
  c10::DeleterFnPtr raw_deleter() const override { return c10::GetCPUAllocator()->raw_deleter(); }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
};
HostMemory memory;
REGISTER_ALLOCATOR(kType, &memory);

void require_dtype(at::ScalarType dtype) {
  TORCH_CHECK_TYPE(float64_allowed || dtype != at::kDouble, "This device has no float64.");
}

Tensor empty(at::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
             std::optional<Device>, std::optional<bool>,
             std::optional<at::MemoryFormat> memory_format) {
  require_dtype(at::dtype_or_default(dtype));
  return at::detail::empty_generic(size, &memory, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                   at::dtype_or_default(dtype), memory_format);
}

Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride,
                     std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                     std::optional<Device>, std::optional<bool>) {
  require_dtype(at::dtype_or_default(dtype));
  return at::detail::empty_strided_generic(size, stride, &memory,
                                           c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                           at::dtype_or_default(dtype));
}

// The same numbers, seen as a tensor of the CPU.
Tensor on_host(const Tensor& tensor) {
  if (!is_here(tensor)) return tensor;
  return at::from_blob(tensor.mutable_data_ptr(), tensor.sizes(), tensor.strides(),
                       tensor.options().device(at::kCPU));
}

Tensor copy_from(const Tensor& from, const Tensor& to, bool) {
  on_host(to).copy_(on_host(from));
  return to;
}

Tensor copy_from_and_resize(const Tensor& from, const Tensor& to) {
  if (to.sizes() != from.sizes()) to.resize_(from.sizes());
  return copy_from(from, to, false);
}

// ---- what autograd asks of a device: its number, one stream, and events that are always over

struct Guard final : c10::impl::NoOpDeviceGuardImpl<kType> {
  Device getDevice() const override { return the_device(); }
  Device exchangeDevice(Device) const override { return the_device(); }
  Stream getStream(Device) const noexcept override {
    return Stream(Stream::DEFAULT, the_device());
  }
  Stream getDefaultStream(Device device) const override { return getStream(device); }
  Stream exchangeStream(Stream) const noexcept override { return getStream(the_device()); }
  void record(void**, const Stream&, c10::DeviceIndex, c10::EventFlag) const override {}
  void synchronizeDevice(const c10::DeviceIndex) const override {}
  void block(void*, const Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

// A generator that belongs to the device; a kernel of the CPU takes it while it is lent.
struct DeviceGenerator final : at::CPUGeneratorImpl {
  DeviceGenerator() { lend(false); }
  void lend(bool lent) { device_ = lent ? Device(at::kCPU) : the_device(); }
};

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  Generator getNewGenerator(c10::DeviceIndex) const override {
    return at::make_generator<DeviceGenerator>();
  }
  const Generator& getDefaultGenerator(c10::DeviceIndex) const override {
    static const Generator generator = at::make_generator<DeviceGenerator>();
    return generator;
  }
};
[[maybe_unused]] const bool registered =
    (at::RegisterPrivateUse1HooksInterface(new Hooks()), true);

// ---- all other operations: checked, then done by the CPU

// Visit each tensor among the arguments, those in lists included, with its argument's name.
template <typename Visit>
void visit_tensors(const std::string& name, const IValue& value, const Visit& visit) {
  if (value.isTensor() && value.toTensor().defined()) visit(name, value.toTensor());
  if (!value.isList()) return;
  for (const IValue& item : value.toListRef()) visit_tensors(name, item, visit);
}

void fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto& arguments = op.schema().arguments();
  const auto first = stack->end() - static_cast<long>(arguments.size());
  const bool indexing = op.schema().name().find("index") != std::string::npos;
  bool device_seen = false;
  std::string name_on_cpu;
  for (size_t i = 0; i < arguments.size(); ++i) {
    visit_tensors(arguments[i].name(), first[i], [&](const std::string& name, const Tensor& tensor) {
      device_seen |= is_here(tensor);
      const bool may_differ = tensor.dim() == 0 || (indexing && name == "indices");  // as in CUDA
      if (tensor.is_cpu() && !may_differ) name_on_cpu = name;
    });
  }
  TORCH_CHECK(!device_seen || name_on_cpu.empty(), "Expected all tensors to be on the same device, ",
              "but ", name_on_cpu, " is on cpu and others are on ", the_device(), " (",
              op.schema().name(), ")");
  std::vector<Generator> lent;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const IValue& value = first[i];
    if (!value.isGenerator()) continue;
    lent.push_back(value.toGenerator());
    TORCH_CHECK(!device_seen || lent.back().device().type() == kType, "Expected a '", the_device(),
                "' device type for generator but found 'cpu' (", op.schema().name(), ")");
  }
  for (Generator& generator : lent)
    if (auto* own = dynamic_cast<DeviceGenerator*>(generator.unsafeGetGeneratorImpl())) own->lend(true);
  at::native::cpu_fallback(op, stack);
  for (Generator& generator : lent)
    if (auto* own = dynamic_cast<DeviceGenerator*>(generator.unsafeGetGeneratorImpl())) own->lend(false);
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", empty);
  m.impl("empty_strided", empty_strided);
  m.impl("_copy_from", copy_from);
  m.impl("_copy_from_and_resize", copy_from_and_resize);
  m.impl("resize_", at::native::resize_);
  m.impl("as_strided", at::native::as_strided_tensorimpl);
  m.impl("view", at::native::view);
  m.impl("_reshape_alias", at::native::_reshape_alias);
  m.impl("unfold", at::native::unfold);
  m.impl("set_.source_Storage", at::native::set_);
  m.impl("set_.source_Storage_storage_offset", at::native::set_storage_cpu_);
}

TORCH_LIBRARY(pretended_device, m) {
  m.def("allow_float64", [](bool allowed) { float64_allowed = allowed; });
}

}  // namespace
