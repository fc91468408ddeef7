// Attention called from Python past torch's dispatcher, which costs more host time than the launch: fa3_direct, an
// extension module for every CPython >= 3.11. Tensors are read through DLPack's exchange table, which torch's tensor
// type carries, so that nothing of torch is linked.
//
// It serves the plain call alone. Of anything else it says None, and the operators of torch/operators.cpp, which then
// get the call, serve it or say what is wrong with it: so no error is told here but lack of memory.
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>

#undef TORCH_TARGET_VERSION  // with it torch hides its copy of DLPack, which is an interface of its own
#include <ATen/dlpack.h>

#include <cmath>
#include <cstdint>

#include "host/c_api.h"

namespace {

constexpr int32_t kHalf = 5, kBFloat16 = 15, kInt32 = 3;  // torch's ScalarType, as Fa3Tensor has it

struct Torch {
  const DLPackExchangeAPI* table = nullptr;
  PyTypeObject* tensor = nullptr;  // no subclass: those may not be what they seem
  PyObject* empty_like = nullptr;  // contiguous
  PyObject* watchers = nullptr;    // a tuple of functions: true while something must see the operators called
  PyObject* is_grad_enabled = nullptr;
  PyObject* requires_grad = nullptr;  // the attribute's name
};
Torch torch_;

// A reference that is given back.
class Owned {
 public:
  explicit Owned(PyObject* object) : object_(object) {}
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  ~Owned() { Py_XDECREF(object_); }
  // Also of an error: then an operator has the call.
  bool is_true() const { return object_ == nullptr || PyObject_IsTrue(object_) != 0; }

 private:
  PyObject* object_;
};

bool is_watched() {
  for (Py_ssize_t i = 0; i < PyTuple_Size(torch_.watchers); ++i) {
    if (Owned(PyObject_CallNoArgs(PyTuple_GetItem(torch_.watchers, i))).is_true()) return true;
  }
  return false;
}

bool needs_gradients(PyObject* const* tensors, int count) {
  if (not Owned(PyObject_CallNoArgs(torch_.is_grad_enabled)).is_true()) return false;
  for (int i = 0; i < count; ++i) {
    if (Owned(PyObject_GetAttr(tensors[i], torch_.requires_grad)).is_true()) return true;
  }
  return false;
}

int32_t dtype_of(const DLDataType& type) {
  if (type.lanes != 1) return -1;
  if (type.code == kDLFloat && type.bits == 16) return kHalf;
  if (type.code == kDLBfloat && type.bits == 16) return kBFloat16;
  return type.code == kDLInt && type.bits == 32 ? kInt32 : -1;
}

// False of what is no plain CUDA tensor; the description lives as long as the tensor.
bool describe(PyObject* object, Fa3Tensor& d) {
  DLTensor view;
  if (Py_TYPE(object) != torch_.tensor || torch_.table->dltensor_from_py_object_no_sync(object, &view) != 0)
    return false;
  d.data = static_cast<char*>(view.data) + view.byte_offset;
  d.sizes = view.shape;
  d.strides = view.strides;
  d.rank = view.ndim;
  d.dtype = dtype_of(view.dtype);
  d.device = view.device.device_id;
  return view.device.device_type == kDLCUDA && d.dtype >= 0;
}

// The kernels need a contiguous last dimension; the operators copy one that isn't.
bool describe_rows(PyObject* object, Fa3Tensor& d) {
  return describe(object, d) && d.rank > 0 && d.strides[d.rank - 1] == 1;
}

bool describe_optional(PyObject* object, Fa3Tensor& d) {
  d.rank = -1;
  return object == Py_None || describe(object, d);
}

bool read(PyObject* object, int64_t& value) {
  value = PyLong_Check(object) ? PyLong_AsLongLong(object) : 0;
  return PyLong_Check(object) && PyErr_Occurred() == nullptr;
}

bool read(PyObject* object, double& value) {
  value = PyFloat_AsDouble(object);
  return PyErr_Occurred() == nullptr;
}

bool stream_of(const Fa3Tensor& tensor, void*& stream) {
  return torch_.table->current_work_stream(kDLCUDA, tensor.device, &stream) == 0;
}

// Device memory for the length of a call. Freed at once: its next user comes later on the same stream.
class Workspace {
 public:
  Workspace() = default;
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  ~Workspace() {
    if (memory_ != nullptr) memory_->deleter(memory_);
  }

  // False with a Python exception set.
  bool allocate(int64_t bytes, int32_t device) {
    DLTensor wanted{};
    wanted.device = {kDLCUDA, device};
    wanted.dtype = {kDLUInt, 8, 1};
    wanted.ndim = 1;
    wanted.shape = &bytes;
    const auto report = [](void*, const char*, const char* message) { PyErr_SetString(PyExc_RuntimeError, message); };
    return torch_.table->managed_tensor_allocator(&wanted, &memory_, nullptr, report) == 0;
  }
  void* data() const { return memory_->dl_tensor.data; }

 private:
  DLManagedTensorVersioned* memory_ = nullptr;
};

PyObject* not_served() {
  PyErr_Clear();
  return Py_NewRef(Py_None);
}

// Calls as the operators of the same names take them; out, or None.
class Call {
 public:
  Call(Fa3Kind kind, PyObject* const* arguments) : next_(arguments), q_(arguments[0]) {
    f_.kind = kind;
    f_.cu_seqlens_q.rank = f_.cu_seqlens_k.rank = f_.seqused_q.rank = f_.seqused_k.rank = f_.page_table.rank = -1;
    served_ = not is_watched() && not needs_gradients(arguments, 3) && describe_rows(*next_++, f_.q) &&
              describe_rows(*next_++, f_.k) && describe_rows(*next_++, f_.v);
  }

  Call& optional(Fa3Tensor Fa3Forward::* tensor) {
    served_ = served_ && describe_optional(*next_++, f_.*tensor);
    return *this;
  }
  Call& integer(int64_t Fa3Forward::* value) {
    served_ = served_ && read(*next_++, f_.*value);
    return *this;
  }

  // The arguments that every operator ends with, and the call.
  PyObject* run() {
    served_ = served_ && read_scale(next_[0]) && PyBool_Check(next_[1]) && read(next_[2], f_.window_left) &&
              read(next_[3], f_.window_right) && read(next_[4], f_.softcap) && read(next_[5], f_.num_splits);
    f_.causal = served_ && next_[1] == Py_True;
    void* stream;
    if (not served_ || fa3_check(&f_) != FA3_OK || not stream_of(f_.q, stream)) return not_served();
    Workspace workspace;
    if (f_.num_splits != 1) {
      if (fa3_workspace(&f_, &f_.workspace_bytes) != FA3_OK) return not_served();
      if (f_.workspace_bytes > 0) {
        if (not workspace.allocate(f_.workspace_bytes, f_.q.device)) return nullptr;
        f_.workspace = workspace.data();
      }
    }
    PyObject* out = PyObject_CallFunctionObjArgs(torch_.empty_like, q_, nullptr);
    if (out == nullptr) return nullptr;
    Fa3Tensor made;
    if (describe(out, made)) {
      f_.out = const_cast<void*>(made.data);
      if (fa3_forward(&f_, stream) == FA3_OK) return out;
    }
    Py_DECREF(out);
    return not_served();
  }

 private:
  bool read_scale(PyObject* object) {
    if (object != Py_None) return read(object, f_.softmax_scale);
    f_.softmax_scale = std::pow(static_cast<double>(f_.q.sizes[f_.q.rank - 1]), -0.5);
    return true;
  }

  PyObject* const* next_;
  PyObject* q_;
  Fa3Forward f_{};
  bool served_;
};

constexpr Py_ssize_t kOptions =
    6;  // softmax_scale (None: head_dim ** -0.5), causal, window_left, window_right, softcap, num_splits

PyObject* fwd(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  return count == 3 + kOptions ? Call(FA3_DENSE, arguments).run() : not_served();
}

PyObject* varlen_fwd(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  if (count != 9 + kOptions) return not_served();
  return Call(FA3_VARLEN, arguments)
      .optional(&Fa3Forward::cu_seqlens_q)
      .optional(&Fa3Forward::cu_seqlens_k)
      .optional(&Fa3Forward::seqused_q)
      .optional(&Fa3Forward::seqused_k)
      .integer(&Fa3Forward::max_seqlen_q)
      .integer(&Fa3Forward::max_seqlen_k)
      .run();
}

PyObject* kvcache_fwd(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  if (count != 8 + kOptions) return not_served();
  return Call(FA3_CACHE, arguments)
      .optional(&Fa3Forward::seqused_k)
      .optional(&Fa3Forward::page_table)
      .optional(&Fa3Forward::cu_seqlens_q)
      .integer(&Fa3Forward::max_seqlen_q)
      .integer(&Fa3Forward::new_rows)
      .run();
}

// True, or None.
PyObject* append_kv(PyObject*, PyObject* const* a, Py_ssize_t count) {
  Fa3Append f{};
  void* stream;
  if (count != 6 || is_watched() || needs_gradients(a, 4) || not describe(a[0], f.k_cache) ||
      not describe(a[1], f.v_cache) || not describe_rows(a[2], f.k) || not describe_rows(a[3], f.v) ||
      not describe(a[4], f.lengths) || not describe_optional(a[5], f.page_table) || not stream_of(f.k, stream) ||
      fa3_append(&f, stream) != FA3_OK) {
    return not_served();
  }
  return Py_NewRef(Py_True);
}

// bind(torch.Tensor, its __dlpack_c_exchange_api__, empty_like, watchers, is_grad_enabled): whether the table's version
// is known here.
PyObject* bind(PyObject*, PyObject* const* a, Py_ssize_t count) {
  if (count != 5 || not PyTuple_Check(a[3])) {
    PyErr_SetString(PyExc_TypeError, "bind takes five arguments, of which the fourth is a tuple");
    return nullptr;
  }
  const auto* table = static_cast<const DLPackExchangeAPI*>(PyCapsule_GetPointer(a[1], "dlpack_exchange_api"));
  if (table == nullptr) return nullptr;
  if (table->header.version.major != DLPACK_MAJOR_VERSION) return Py_NewRef(Py_False);
  torch_ = {table,           reinterpret_cast<PyTypeObject*>(Py_NewRef(a[0])), Py_NewRef(a[2]), Py_NewRef(a[3]),
            Py_NewRef(a[4]), PyUnicode_InternFromString("requires_grad")};
  return Py_NewRef(Py_True);
}

template <typename Function>
PyCFunction fast(Function function) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

PyMethodDef methods[] = {
    {"fwd", fast(fwd), METH_FASTCALL, nullptr},
    {"varlen_fwd", fast(varlen_fwd), METH_FASTCALL, nullptr},
    {"kvcache_fwd", fast(kvcache_fwd), METH_FASTCALL, nullptr},
    {"append_kv", fast(append_kv), METH_FASTCALL, nullptr},
    {"bind", fast(bind), METH_FASTCALL, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef module = {PyModuleDef_HEAD_INIT, "fa3_direct", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit_fa3_direct() {
  return PyModule_Create(&module);
}
