// Package cluster does the part of Cluster API's core for Clusters on AWSClusters, where no
// core runs: it makes the Cluster the owner of its infrastructure, hands on the endpoint of the
// API servers and the failure domains, and reports the infrastructure as provisioned. From the
// CA that the control plane's makers put into a Secret, it makes the Secret with the
// kubeconfig, and reports the control plane as initialized when its API server answers.
//
// It makes no Machines. Where Cluster API's core runs, it must not: both would write one
// status.
package cluster
